// Two agents on one board through a TypeScript client; prints as JSON what they saw.
//
//   node drive.mjs legacy|modern '{"url": …}' | '{"stdio": [command, …]}'
//
// `legacy` is @modelcontextprotocol/sdk (sessions, resources/subscribe), `modern` is
// @modelcontextprotocol/client pinned to 2026-07-28 (no sessions, subscriptions/listen). Modules are
// looked for in the working directory, so that none are installed beside this file.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [generation, targetJson] = process.argv.slice(2);
const target = JSON.parse(targetJson);
const require = createRequire(join(process.cwd(), "package.json"));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);

const MODERN = "2026-07-28";
const STRUCTURED = { _meta: { "blackboard/structured": true } };
const LIMIT = { timeout: 40_000 };

const library = {
  legacy: async () => {
    const types = await load("@modelcontextprotocol/sdk/types.js");
    return {
      ...(await load("@modelcontextprotocol/sdk/client/index.js")),
      ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
      ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
      options: {},
      updated: types.ResourceUpdatedNotificationSchema,
      call: (client, params, limit) => client.callTool(params, undefined, limit),
      follow: (client, uri) => client.subscribeResource({ uri }),
      version: (client) => client.transport.protocolVersion ?? null,
    };
  },
  modern: async () => ({
    ...(await load("@modelcontextprotocol/client")),
    ...(await load("@modelcontextprotocol/client/stdio")),
    options: { versionNegotiation: { mode: { pin: MODERN } } },
    updated: "notifications/resources/updated",
    call: (client, params, limit) => client.callTool(params, limit),
    follow: (client, uri) => client.listen({ resourceSubscriptions: [uri] }),
    version: (client) => client.getNegotiatedProtocolVersion(),
  }),
};
const sdk = await library[generation]();

function transport(agent) {
  if (target.url) {
    return new sdk.StreamableHTTPClientTransport(new URL(target.url), {
      requestInit: { headers: { "X-Blackboard-Agent": agent } },
    });
  }
  const [command, ...args] = target.stdio;
  return new sdk.StdioClientTransport({ command, args: [...args, "--agent", agent], stderr: "inherit" });
}

async function connect(agent) {
  const client = new sdk.Client({ name: `${agent}-client`, version: "1" }, sdk.options);
  await client.connect(transport(agent));
  const call = async (name, args = {}) => {
    const result = await sdk.call(client, { name, arguments: args, ...STRUCTURED }, LIMIT);
    return {
      error: result.isError === true,
      text: result.content.map((part) => part.text).join("\n"),
      facts: result.structuredContent,
    };
  };
  return { client, call };
}

function within(promise, seconds, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took over ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const one = await connect("ts");
const other = await connect("rival");
const seen = { calls: {}, resources: {} };

seen.version = sdk.version(one.client);
seen.server = one.client.getServerVersion();
seen.instructions = one.client.getInstructions();
seen.tools = (await one.client.listTools()).tools.map((tool) => tool.name);
seen.listed = (await one.client.listResources()).resources.map((resource) => resource.uri);
seen.templates = (await one.client.listResourceTemplates()).resourceTemplates.map((t) => t.uriTemplate);

// All seven tools.
const fact = await one.call("post", { text: "the cache is cold after a restart", tags: ["cache"] });
const id = fact.facts.items[0].id;
seen.id = id;
seen.calls.post = fact;
seen.calls.read = await one.call("read");
seen.calls.query = await one.call("query", { tags: ["cache"] });
seen.calls.query_archive = await one.call("query_archive", { text: "cache" });
seen.calls.subscribe = await one.call("subscribe", { filter: { type: "CRITIQUE" }, name: "critiques" });
const critique = await other.call("post", {
  text: "it is warm: see the hit rate",
  type: "CRITIQUE",
  edges: { critiques: [id] },
});
seen.critique = critique.facts.items[0].id;
seen.calls.wait = await one.call("wait", { subscription: seen.calls.subscribe.facts.id, seconds: 10 });
seen.calls.debate = await one.call("debate", { op: "status", id });
seen.unknownArgument = await one.call("query", { colour: "red" }).catch((error) => ({
  error: true,
  text: error.message,
}));

// Every resource, as text and as JSON.
const base = "board://main";
const places = [
  "", "/core", "/working", "/agenda", "/threads", "/agents", "/events", "/constraints",
  "/hot-issues", "/answer", "/stats", "/outline", "/view/ts", `/items/${id}`, `/items/${id}/explain`,
  `/items/${id}/versions`, "/protocols", "/panels", "/panels/notes",
];
for (const place of places) {
  for (const ending of ["", ".json"]) {
    const uri = base + place + ending;
    const { contents } = await one.client.readResource({ uri });
    seen.resources[uri] = { mime: contents[0].mimeType, text: contents[0].text };
  }
}

// A subscriber hears of another client's post.
const uri = `${base}/working`;
const heard = new Promise((resolve) => {
  one.client.setNotificationHandler(sdk.updated, (notification) => {
    if (notification.params.uri === uri) resolve(notification.params.uri);
  });
});
await sdk.follow(one.client, uri);
await other.call("post", { text: "the hit rate counts retries", type: "LOG" });
seen.notified = await within(heard, 15, "the notification");

// A waiting call ends with another client's post, which is made while it waits.
const place = (await one.call("read")).facts.seq;
const started = Date.now();
const waiting = one.call("wait", { since: place, seconds: 30 });
await new Promise((resolve) => setTimeout(resolve, 300));
const late = await other.call("post", { text: "@ts: without retries it is 12 %" });
seen.late = late.facts.items[0].id;
seen.waited = await waiting;
seen.waitedMs = Date.now() - started;

await one.client.close();
await other.client.close();
console.log(JSON.stringify(seen));
process.exit(0);
