"""The reference for chat templates: Jinja2 with the settings of transformers. Comparison scripts share this
module."""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes


class GenerationTag(jinja2.ext.Extension):
    """The block {% generation %}, which marks text of the assistant. The block renders its body unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(lineno)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment(now=None):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda format: (now or datetime.datetime.now()).strftime(format)
    return environment


def render(environment, source, variables):
    """Renders a template. Returns (text, None) or (None, error)."""
    try:
        text = environment.from_string(source).render(**variables)
        text.encode("utf-8")
        return text, None
    except Exception as error:  # a template may raise any exception
        return None, "%s: %s" % (type(error).__name__, error)
