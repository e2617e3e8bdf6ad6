"""A chat template for models without a chat template."""
import pathlib
import tempfile

from harness.server import Server

TEMPLATE = """{{ bos_token }}{% for message in messages %}{% if message['role'] not in ['system', 'user', 'assistant'] %}\
{{ raise_exception('unknown role') }}{% endif %}{{ message['role'] }}: {{ message['content'] }}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"""


class TemplateFile:
    def __init__(self, text=TEMPLATE):
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name) / "chat_template.jinja"
        self.path.write_text(text)

    @property
    def flags(self):
        return ["--chat-template", str(self.path)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cleanup()

    def cleanup(self):
        self._folder.cleanup()


class ChatServer(Server):
    """A server whose model uses TEMPLATE, even if the model has its own chat template."""

    def __init__(self, *flags, **options):
        self._template = TemplateFile()
        super().__init__(*self._template.flags, *flags, **options)

    def close(self):
        super().close()
        self._template.cleanup()
