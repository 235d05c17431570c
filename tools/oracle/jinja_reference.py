# SPDX-License-Identifier: MIT
"""Jinja2 as transformers sets it up for chat templates. Needs the package jinja2, in an environment of its own."""
import json
import time

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1700000000  # Unix time of strftime_now


class Generation(jinja2.ext.Extension):
    """The tag generation, which only marks what the assistant says."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return time.strftime(form, time.gmtime(NOW))


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(template, variables):
    """The text, or None and the words of the failure."""
    try:
        return environment().from_string(template).render(**variables), None
    except Exception as error:  # whatever Python code ran into
        return None, f"{type(error).__name__}: {error}"
