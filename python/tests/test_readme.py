"""The examples of the README and of the modules do what they say."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from end_to_end import Machine

import unforget

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)

# A model that answers without a network, for the example that asks one.
MODEL = """
import agents, agents.models.openai_provider
from agents import ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

class Offline(agents.Model):
    async def get_response(self, *args, **kwargs):
        text = ResponseOutputText(type="output_text", text="Hello, Mia.", annotations=[])
        return ModelResponse(output=[ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text])], usage=Usage(), response_id=None)
    def stream_response(self, *args, **kwargs):
        raise NotImplementedError

agents.models.openai_provider.OpenAIProvider.get_model = lambda self, name: Offline()
set_tracing_disabled(True)
"""


def run(example: str, home: Path, **variables: str) -> list[str]:
    environment = {**os.environ, "UNFORGET_HOME": str(home), **variables}
    done = subprocess.run(
        [sys.executable, "-c", example],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=home.parent,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def example_with(word: str) -> str:
    (example,) = [example for example in EXAMPLES if word in example]
    return example


def test_openai(tmp_path: Path) -> None:
    example = MODEL + example_with("OpenAIAgentsSession")
    assert run(example, tmp_path / "home") == ["Hello, Mia.", "2"]
    # It goes on where it was.
    assert run(example, tmp_path / "home") == ["Hello, Mia.", "4"]


def test_langgraph(tmp_path: Path) -> None:
    example = example_with("UnforgetSaver")
    assert run(example, tmp_path / "home") == ["1 so far", "3"]
    assert run(example, tmp_path / "home") == ["3 so far", "6"]


def test_sessions(tmp_path: Path) -> None:
    example = example_with("Sessions()")
    lines = run(example, tmp_path / "home")
    assert lines[0].startswith("main:mail:ada ")
    assert any("train" in line for line in lines[1:-1])
    assert lines[-1] == "2"
    assert run(example, tmp_path / "home")[-1] == "2", "a client id counts once"


def test_claude(tmp_path: Path, machine: Machine) -> None:
    lines = run(example_with("UnforgetSessionStore"), tmp_path / "home", **machine.environment())
    assert len(lines) == 2
    sent = machine.conversation()
    assert "My cat is called Mia." in sent[-1].part("messages"), "the second prompt came with the first"


def test_every_way_to_the_store_is_in_an_example() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("name", sorted(module.name for module in pkgutil.iter_modules(unforget.__path__)))
def test_examples_of_the_modules(name: str) -> None:
    module: Any = importlib.import_module(f"unforget.{name}")
    assert doctest.testmod(module).failed == 0
