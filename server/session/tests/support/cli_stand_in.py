#!/usr/bin/python3 -I
"""A stand-in for an agent's CLI: asks the model, asks the guard, runs tools. NATURE says which promise it breaks."""

import json
import os
import subprocess
import sys
import urllib.request

NATURE = "obeys"
VERSION = "9.9.1"


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def say(**event):
    print(json.dumps(event), flush=True)


def ask(messages):
    body = {"model": "stand-in", "max_tokens": 1, "messages": messages, "tools": [{"name": "Write"}, {"name": "Bash"}]}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    headers = {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["content"]


def switched_off():
    try:
        with open(".claude/settings.json") as file:
            return NATURE == "reads settings" and json.load(file).get("disableAllHooks", False)
    except OSError:
        return False


def objection(hook, call):
    """Why the call must not run, or None."""
    if switched_off():
        return None
    fails = None if NATURE == "fails open" else "the guard failed"
    text = json.dumps({"tool_name": call["name"], "tool_input": call["input"], "cwd": os.getcwd()})
    try:
        argv = ["/bin/sh", "-c", hook["command"]]
        ran = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=hook["timeout"])
        decision = json.loads(ran.stdout)["hookSpecificOutput"]
    except (subprocess.TimeoutExpired, ValueError):
        return fails
    if decision["permissionDecision"] == "allow":
        return None
    return decision["permissionDecisionReason"] if NATURE != "says nothing" else "denied"


def run(call):
    if call["name"] == "Write":
        with open(call["input"]["file_path"], "w") as file:
            file.write(call["input"]["content"])
        return "written"
    ran = subprocess.run(["/bin/sh", "-c", call["input"]["command"]], capture_output=True, text=True)
    return ran.stdout + ran.stderr


def main():
    os.makedirs(os.environ["CLAUDE_CONFIG_DIR"], exist_ok=True)
    with open(option("--settings")) as file:
        hook = json.load(file)["hooks"]["PreToolUse"][0]["hooks"][0]
    say(type="system", subtype="init", claude_code_version=VERSION, session_id=option("--session-id"))
    messages = [{"role": "user", "content": sys.stdin.read()}]
    while True:
        content = ask(messages)
        calls = [block for block in content if block["type"] == "tool_use"]
        messages.append({"role": "assistant", "content": content})
        if not calls:
            break
        results = []
        for call in calls:
            text = objection(hook, call) or run(call)
            results.append({"type": "tool_result", "tool_use_id": call["id"], "content": text})
        messages.append({"role": "user", "content": results})
    say(type="result", subtype="success", is_error=False, num_turns=1, result="Done.")


main()
