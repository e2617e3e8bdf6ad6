"""Checks that docs/bad_input.md and the tests agree: the tests named in a row check that row, and every row that a
test names exists."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
E2E = SOURCE / "tests/e2e"


def table():
    """Returns (row number, names of the tests in the row) for each row of docs/bad_input.md."""
    lines = (SOURCE / "docs/bad_input.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d+ \|", line)]
    return [(int(row), set(checks.replace("`", "").split(", "))) for row, *_, checks in cells]


def rows_of_python():
    """Returns the map from row number to the files of tests/e2e that name the row."""
    rows = {}
    for path in E2E.glob("*.py"):
        text = path.read_text()
        found = re.findall(r"\bCase\((\d+),", text)
        for marked in re.findall(r"# rows? (\d+(?:, \d+)*)", text):
            found += marked.split(", ")
        for row in found:
            rows.setdefault(int(row), set()).add(path.stem)
    return rows


def cpp_tests():
    texts = [path.read_text() for path in (SOURCE / "tests").rglob("*.cpp")]
    return {f"{suite}.{name}" for text in texts for suite, name in re.findall(r"\bTEST(?:_F|_P)?\((\w+), (\w+)\)", text)}


class BadInputTest(unittest.TestCase):
    def test_rows_stand_once_and_in_order(self):
        rows = [row for row, _ in table()]
        self.assertEqual(rows, sorted(set(rows)))
        self.assertGreater(len(rows), 90)

    def test_every_row_names_the_suites_that_name_it(self):
        documented = {row: {check for check in checks if "." not in check} for row, checks in table()}
        found = rows_of_python()
        for row in sorted(documented.keys() | found):
            with self.subTest(row=row):
                self.assertEqual(documented.get(row, set()), found.get(row, set()))

    def test_every_cpp_test_that_is_named_is_there(self):
        named = {check for _, checks in table() for check in checks if "." in check}
        self.assertEqual(named - cpp_tests(), set())

    def test_every_row_is_checked_by_something(self):
        self.assertEqual([row for row, checks in table() if not checks - {""}], [])


if __name__ == "__main__":
    unittest.main()
