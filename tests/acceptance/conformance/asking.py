"""Fixtures that ask the client back: by requests of the server's own to the legacy generation, by results
that want input to the modern one. And logging, which the legacy generation can be told the level of."""

from __future__ import annotations

import warnings
from typing import Any

from blackboard_mcp.server.mcp.server import BoardServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmptyResult,
    GetPromptResult,
    InputRequiredResult,
    ListRootsRequest,
    PromptMessage,
    SamplingMessage,
    SetLevelRequestParams,
    TextContent,
)

Arguments = dict[str, Any]
Ctx = Context[Any, Any]
Outcome = CallToolResult | InputRequiredResult


def _done(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


def _form(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


# The legacy generation: the server sends requests and log messages while a call runs


async def _log(context: Ctx, text: str) -> None:
    request = context.request_context
    with warnings.catch_warnings(action="ignore"):  # deprecated, and still required of the legacy generation
        await request.session.send_log_message("info", text, related_request_id=request.request_id)


async def tool_with_logging(context: Ctx, arguments: Arguments) -> CallToolResult:
    """Logs three times."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await _log(context, text)
    return _done("logged")


async def sampling(context: Ctx, arguments: Arguments) -> CallToolResult:
    """Asks the client's model."""
    request = context.request_context
    message = SamplingMessage(role="user", content=TextContent(type="text", text=arguments["prompt"]))
    with warnings.catch_warnings(action="ignore"):  # deprecated as logging is
        answer = await request.session.create_message(
            messages=[message], max_tokens=100, related_request_id=request.request_id
        )
    return _done(f"LLM response: {answer.content}")


async def _elicit(context: Ctx, message: str, schema: dict[str, Any]) -> CallToolResult:
    request = context.request_context
    answer = await request.session.elicit_form(message, schema, related_request_id=request.request_id)
    return _done(f"Elicitation completed: action={answer.action}, content={answer.content}")


async def elicitation(context: Ctx, arguments: Arguments) -> CallToolResult:
    """Asks the user for a name and an address."""
    username = {"type": "string", "description": "User's response"}
    email = {"type": "string", "description": "User's email address"}
    return await _elicit(context, arguments["message"], _form(username=username, email=email))


async def elicitation_defaults(context: Ctx, arguments: Arguments) -> CallToolResult:
    """Asks with a default of every primitive type."""
    properties: dict[str, Any] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    schema = {"type": "object", "properties": properties}
    return await _elicit(context, "Please provide user information", schema)


async def elicitation_enums(context: Ctx, arguments: Arguments) -> CallToolResult:
    """Asks with an enumeration of every kind."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    schema = _form(
        untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return await _elicit(context, "Please choose", schema)


# The modern generation: a result wants input, and the call comes again with it


def _ask_user(message: str, **properties: dict[str, Any]) -> ElicitRequest:
    form = ElicitRequestFormParams(message=message, requested_schema=_form(**properties))
    return ElicitRequest(params=form)


def _ask_model(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


NAME = _ask_user("What is your name?", name={"type": "string"})
CONFIRM = _ask_user("Please confirm", ok={"type": "boolean"})
CAPITAL = _ask_model("What is the capital of France?")
GREETING = _ask_model("Generate a greeting")
ROOTS = ListRootsRequest()


def _given(context: Ctx, *keys: str) -> dict[str, Any] | None:
    """The answers under all the keys; `None` while one is missing. Others are ignored."""
    responses = context.input_responses or {}
    return {key: responses[key] for key in keys} if all(key in responses for key in keys) else None


async def ask_elicitation(context: Ctx, arguments: Arguments) -> Outcome:
    """Wants a name."""
    given = _given(context, "user_name")
    if given is None:
        return InputRequiredResult(input_requests={"user_name": NAME})
    answer = given["user_name"]
    if not isinstance(answer, ElicitResult) or answer.content is None:
        return InputRequiredResult(input_requests={"user_name": NAME})
    return _done(f"Hello, {answer.content.get('name')}!")


async def ask_sampling(context: Ctx, arguments: Arguments) -> Outcome:
    """Wants the client's model."""
    given = _given(context, "capital_question")
    if given is None:
        return InputRequiredResult(input_requests={"capital_question": CAPITAL})
    return _done(str(given["capital_question"].content))


async def ask_roots(context: Ctx, arguments: Arguments) -> Outcome:
    """Wants the client's roots."""
    given = _given(context, "client_roots")
    if given is None:
        return InputRequiredResult(input_requests={"client_roots": ROOTS})
    return _done(", ".join(str(root.uri) for root in given["client_roots"].roots))


async def ask_with_state(context: Ctx, arguments: Arguments) -> Outcome:
    """Wants a confirmation, and its own state back."""
    given = _given(context, "confirm")
    if given is None or context.request_state is None:
        return InputRequiredResult(input_requests={"confirm": CONFIRM}, request_state="asked")
    return _done("state-ok" if context.request_state == "asked" else "wrong state")


async def ask_everything(context: Ctx, arguments: Arguments) -> Outcome:
    """Wants three kinds of input at once."""
    if _given(context, "user_name", "greeting", "client_roots") is None or context.request_state is None:
        requests = {"user_name": NAME, "greeting": GREETING, "client_roots": ROOTS}
        return InputRequiredResult(input_requests=requests, request_state="asked")
    return _done("all there")


async def ask_twice(context: Ctx, arguments: Arguments) -> Outcome:
    """Wants a name, then a colour."""
    if context.request_state == "name asked" and (given := _given(context, "step1")) is not None:
        color = _ask_user("Step 2: What is your favorite color?", color={"type": "string"})
        state = f"color asked of {given['step1'].content}"
        return InputRequiredResult(input_requests={"step2": color}, request_state=state)
    if (context.request_state or "").startswith("color asked") and _given(context, "step2") is not None:
        return _done("two rounds")
    name = _ask_user("Step 1: What is your name?", name={"type": "string"})
    return InputRequiredResult(input_requests={"step1": name}, request_state="name asked")


async def ask_as_able(context: Ctx, arguments: Arguments) -> Outcome:
    """Wants only what the client says it can give."""
    if context.input_responses:
        return _done("answered")
    able = context.client_capabilities
    requests: dict[str, Any] = {}
    if able is not None and able.sampling is not None:
        requests["greeting"] = GREETING
    if able is not None and able.elicitation is not None:
        requests["user_name"] = NAME
    return InputRequiredResult(input_requests=requests) if requests else _done("nothing to ask")


async def ask_of_anybody(context: Ctx, arguments: Arguments) -> Outcome:
    """Refuses clients without sampling."""
    able = context.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this tool needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return await ask_sampling(context, arguments)


async def log_when_wanted(context: Ctx, arguments: Arguments) -> CallToolResult:
    """Logs, which reaches only a request that named a level."""
    await _log(context, "a line of log")
    return _done("logged")


async def ask_in_prompt(context: Ctx, arguments: dict[str, str]) -> GetPromptResult | InputRequiredResult:
    """A prompt that wants its context."""
    if (given := _given(context, "user_context")) is None:
        asked = _ask_user("What context should the prompt use?", context={"type": "string"})
        return InputRequiredResult(input_requests={"user_context": asked})
    content = TextContent(type="text", text=f"Given {given['user_context'].content}")
    return GetPromptResult(messages=[PromptMessage(role="user", content=content)])


def _takes(*names: str) -> dict[str, Any]:
    return _form(**{name: {"type": "string"} for name in names})


ASKING_TOOLS: dict[str, Any] = {
    "test_tool_with_logging": (tool_with_logging, _takes()),
    "test_sampling": (sampling, _takes("prompt")),
    "test_elicitation": (elicitation, _takes("message")),
    "test_elicitation_sep1034_defaults": (elicitation_defaults, _takes()),
    "test_elicitation_sep1330_enums": (elicitation_enums, _takes()),
    "test_input_required_result_elicitation": (ask_elicitation, _takes()),
    "test_input_required_result_sampling": (ask_sampling, _takes()),
    "test_input_required_result_list_roots": (ask_roots, _takes()),
    "test_input_required_result_request_state": (ask_with_state, _takes()),
    "test_input_required_result_tampered_state": (ask_with_state, _takes()),
    "test_input_required_result_multiple_inputs": (ask_everything, _takes()),
    "test_input_required_result_multi_round": (ask_twice, _takes()),
    "test_input_required_result_capabilities": (ask_as_able, _takes()),
    "test_streaming_elicitation": (ask_elicitation, _takes()),
    "test_missing_capability": (ask_of_anybody, _takes()),
    "test_logging_tool": (log_when_wanted, _takes()),
}
ASKING_PROMPTS: dict[str, Any] = {"test_input_required_result_prompt": (ask_in_prompt, ())}


def accept_log_levels(server: BoardServer) -> None:
    """Answer `logging/setLevel`, and so declare logging, to the legacy generation."""

    async def set_level(context: Any, params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    server.sdk_server._lowlevel_server.add_request_handler(
        "logging/setLevel", SetLevelRequestParams, set_level
    )
