// Pages whose terminal sessions are run by tests: what a page shows below a command is what the command printed.

/** A page, cut where sessions begin and end; put together again it is the page. */
type Part =
  /** Anything that is not run, except what the comments in it name: `<!-- test: two pods -->`. */
  | { readonly kind: 'text'; readonly text: string; readonly scenes: readonly string[] }
  /** A block of ```console; each command with what the page shows below it. */
  | { readonly kind: 'session'; readonly commands: readonly string[] };

const FENCE = /^```console\n(.*?)^```\n/gms;
const PROMPT = '$ ';
const MORE = '> ';

function readPage(page: string): readonly Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const { 0: block, 1: body = '', index } of page.matchAll(FENCE)) {
    parts.push(textPart(page.slice(end, index)));
    parts.push({ kind: 'session', commands: commandsIn(body) });
    end = index + block.length;
  }
  return [...parts, textPart(page.slice(end))];
}

function textPart(text: string): Part {
  return { kind: 'text', text, scenes: [...text.matchAll(/^<!-- test: (.*) -->$/gm)].map(([, name = '']) => name) };
}

/** What a command printed on both streams, and how it ended. */
export interface Typed {
  readonly output: string;
  readonly status: number;
}

/** A session as a page shows it; a status is only worth a line where it is not 0. */
function renderSession(ran: readonly (Typed & { readonly command: string })[]): string {
  const lines = ran.map(({ command, output, status }) => {
    const shown = command.split('\n').join(`\n${MORE}`);
    const printed = output === '' || output.endsWith('\n') ? output : `${output}\n`;
    return `${PROMPT}${shown}\n${printed}${status === 0 ? '' : `(status ${String(status)})\n`}`;
  });
  return `\`\`\`console\n${lines.join('')}\`\`\`\n`;
}

/** How the commands of a page are run. */
export interface PageRun {
  /** Makes the scene of that name; a page without scenes has no need of it. */
  readonly set?: (scene: string) => Promise<void>;
  readonly type: (command: string) => Promise<Typed>;
  /** Replaces what differs from run to run. */
  readonly steady: (output: string) => string;
}

/** Runs the commands of the page in their order. Returns the page with what they print, and how they end. */
export async function runPage(page: string, { set, type, steady: steadied }: PageRun): Promise<string> {
  const shown: string[] = [];
  for (const part of readPage(page)) {
    if (part.kind === 'text') {
      for (const scene of part.scenes) await set?.(scene);
      shown.push(part.text);
      continue;
    }
    const ran: (Typed & { command: string })[] = [];
    for (const command of part.commands) {
      const { output, status } = await type(command);
      ran.push({ command, output: steadied(output), status });
    }
    shown.push(renderSession(ran));
  }
  return shown.join('');
}

/** What follows a prompt, with the lines that go on with it. */
function commandsIn(body: string): string[] {
  const commands: string[] = [];
  let isOpen = false;
  for (const line of body.split('\n')) {
    if (line.startsWith(PROMPT)) {
      commands.push(line.slice(PROMPT.length));
      isOpen = true;
    } else if (isOpen && line.startsWith(MORE)) {
      commands.push(`${commands.pop() ?? ''}\n${line.slice(MORE.length)}`);
    } else {
      isOpen = false;
    }
  }
  return commands;
}

/** Replaces what differs from run to run. */
export function steady(output: string): string {
  return output
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '2026-01-02T03:04:05Z')
    .replaceAll(
      /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g,
      '11111111-2222-3333-4444-555555555555',
    );
}
