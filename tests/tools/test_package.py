"""Tests the archive of `make package`: test_package.py BUILD_FOLDER."""
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools"))
import package  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop())


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        archive = cls.folder / "incipit.tar.xz"
        cls.said = package.output_of(sys.executable, str(SOURCE / "tools/package.py"), str(BUILD), str(archive))
        cls.size = archive.stat().st_size
        with tarfile.open(archive) as opened:
            opened.extractall(cls.folder)
        cls.root = cls.folder / "incipit"

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_every_library_but_the_systems_comes_from_the_package(self):
        self.assertGreater(len(package.libraries_of(self.root / "bin/incipit")), 10)
        for program in (self.root / "bin").iterdir():
            for name, path in package.libraries_of(program).items():
                self.assertEqual(path.resolve().parent, (self.root / "lib").resolve(), f"{program.name}: {name}")

    def test_nothing_needs_a_newer_c_library_than_debian_12_has(self):
        for file in [*(self.root / "bin").iterdir(), *(self.root / "lib").iterdir()]:
            self.assertLessEqual(package.newest_glibc(file), (2, 36), file.name)
            self.assertIn(file.name, self.said)

    def test_it_runs_from_where_it_was_unpacked(self):
        moved = self.folder / "elsewhere"
        self.root.rename(moved)
        try:
            result = subprocess.run(
                [str(moved / "bin/incipit"), "tokenize", "--tokenizer", "models/incipit-tiny"], cwd=moved,
                env={"PATH": os.environ["PATH"]}, input='"Once upon a time"\n', capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, r"^\[\d+(, ?\d+)*\]")
        finally:
            moved.rename(self.root)

    def test_gpu_check_is_in_it_and_says_what_is_missing(self):
        result = subprocess.run(
            [str(self.root / "gpu_check"), "--only", "device", "--output", str(self.folder / "out")],
            capture_output=True, text=True)
        self.assertTrue((self.folder / "out/performance-gpu.md").exists())
        if result.returncode == 0:
            self.skipTest("this machine has a card")
        self.assertEqual(result.returncode, 77, result.stderr)
        has_programs = (self.root / "bin/incipit-gpu-bench").exists()
        self.assertRegex(result.stderr, "NVIDIA driver|CUDA device" if has_programs else
                         "bin/incipit-gpu-bench is not in this package")

    def test_it_is_small(self):
        self.assertLess(self.size, 50_000_000)


if __name__ == "__main__":
    unittest.main()
