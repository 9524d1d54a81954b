// Asks a server several questions through the Inspector's command line, in one process of Node.
//
//   node inspect.mjs '[[argument, …], …]'
//
// Prints as JSON what the Inspector printed for each. Modules are looked for in the working directory.

import { join } from "node:path";
import { pathToFileURL } from "node:url";

const entry = join(process.cwd(), "node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js");
const { runCli } = await import(pathToFileURL(entry).href);
const write = process.stdout.write;
const answers = [];
for (const words of JSON.parse(process.argv[2])) {
  let said = "";
  process.stdout.write = (chunk, encoding, done) => {
    said += chunk;
    const told = typeof encoding === "function" ? encoding : done;
    if (told) process.nextTick(told);
    return true;
  };
  try {
    await runCli([process.argv[0], entry, ...words]);
  } finally {
    process.stdout.write = write;
  }
  if (process.exitCode) throw new Error(`${words.join(" ")} ended with ${process.exitCode}: ${said}`);
  answers.push(JSON.parse(said));
}
process.stdout.write(JSON.stringify(answers));
