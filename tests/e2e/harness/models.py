"""Copies of a model folder in which a test changes one thing."""
import contextlib
import json
import pathlib
import shutil
import struct
import tempfile


class ModelCopy:
    """A copy of the model folder `source` that a test may damage. The weights are copied too, because some tests
    damage the weights."""

    def __init__(self, source):
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name) / "model"
        shutil.copytree(source, self.path)
        for file in self.path.iterdir():
            file.chmod(0o644)
        self.path.chmod(0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def edit_json(self, name, change):
        path = self.path / name
        value = json.loads(path.read_text())
        change(value)
        path.write_text(json.dumps(value))

    def set_config(self, **values):
        self.edit_json("config.json", lambda config: config.update(values))

    @contextlib.contextmanager
    def header(self):
        """Yields the safetensors header as a dictionary. At the end of the `with` block, the header and its length
        are written back."""
        path = self.path / "model.safetensors"
        data = path.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        yield header
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])

    def write_weights(self, data):
        (self.path / "model.safetensors").write_bytes(data)

    def read_weights(self):
        return (self.path / "model.safetensors").read_bytes()
