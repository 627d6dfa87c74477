// The configuration file of the agent on hosts without an orchestrator, from the declaration in src/config/environment.ts.
import { DATASTORE_VARIABLES, ENVIRONMENT } from '../../src/config/environment.ts';

const LINE = 100;

/** Returns the file with every variable of the agent, each with its meaning and commented out. */
export function agentEnvFile(): string {
  const own = Object.entries(ENVIRONMENT).flatMap(([name, { meaning, byDefault }]) => {
    const { 'netplug-agent': here }: Partial<Record<string, string>> = meaning;
    return here === undefined ? [] : [entry(name, byDefault, here)];
  });
  const datastore = Object.entries(DATASTORE_VARIABLES).map(([name, { byDefault, meaning }]) =>
    entry(name, byDefault, meaning),
  );
  return `# Environment of netplug-agent.service, NAME=value. Restart the service after a change. docs/hosts.md leads through
# the first settings.
# Made by scripts/check-generated.ts from src/config/environment.ts.

# --- The datastore. Name the same one as in the network configuration. ---

${datastore.join('\n')}
# --- The agent ---

${own.join('\n')}`;
}

function entry(name: string, byDefault: string, meaning: string): string {
  const plain = meaning.replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1').replaceAll('`', '');
  return `${wrapped(plain)}#${name}=${byDefault}\n`;
}

function wrapped(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || `# ${last} ${word}`.length > LINE) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines.map((line) => `# ${line}\n`).join('');
}
