"""Checks that docs/planted_bugs.md contains the table that tools/mutate.py prints."""
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools"))

import mutate  # noqa: E402


class PlantedBugsPageTest(unittest.TestCase):
    def test_the_page_ends_with_the_printed_table(self):
        page = (SOURCE / "docs/planted_bugs.md").read_text()
        table = page[page.index("| source file |"):]
        self.assertEqual(table, mutate.table(), "run tools/mutate.py --table and replace the table of the page")

    def test_every_bug_has_a_name_of_its_own(self):
        names = [bug.name for bug in mutate.BUGS]
        self.assertEqual(sorted(set(names)), sorted(names))


if __name__ == "__main__":
    unittest.main()
