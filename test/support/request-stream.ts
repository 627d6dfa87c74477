// A steady stream of HTTP requests out of a namespace, over connections that are kept open, which remembers what each was answered. It
// is a process of its own: sockets of a whole namespace, and its work delays no test.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestNetns } from './netns.ts';

export interface StreamedRequest {
  readonly method: string;
  readonly path: string;
}

export interface RequestStreamOptions {
  readonly host: string;
  readonly port: number;
  readonly perSecond: number;
  /** Sent by turns. */
  readonly requests: readonly StreamedRequest[];
}

/** How often each request, such as `GET /`, had each status; `none` stands for a connection that breaks, or no answer in time. */
export type Answers = Readonly<Record<string, Readonly<Record<string, number>>>>;

export interface RequestStream extends AsyncDisposable {
  /** Those since the last call of this. */
  take(): Promise<Answers>;
}

const TICK_MS = 10;
const TIMEOUT_MS = 1500;
const MOST_CONNECTIONS = 64;

export function startRequestStream(netns: TestNetns, options: RequestStreamOptions): RequestStream {
  const program = [process.execPath, import.meta.filename, JSON.stringify(options)];
  const child = spawn('nsenter', [`--net=${netns.path}`, ...program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  return {
    take: async () => {
      child.stdin.write('\n');
      const [line] = (await once(lines, 'line')) as [string];
      return JSON.parse(line) as Answers;
    },
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, 'exit');
      if (child.exitCode === null && child.kill('SIGKILL')) await ended;
    },
  };
}

if (import.meta.main) await serve(JSON.parse(process.argv[2] ?? '') as RequestStreamOptions);

/** Sends until it is killed, and prints what was answered for each line of standard input. */
async function serve({ host, port, perSecond, requests }: RequestStreamOptions): Promise<void> {
  let answers: Record<string, Record<string, number>> = {};
  createInterface({ input: process.stdin }).on('line', () => {
    process.stdout.write(`${JSON.stringify(answers)}\n`);
    answers = {};
  });
  const agent = new Agent({ keepAlive: true, maxSockets: MOST_CONNECTIONS });
  const send = ({ method, path }: StreamedRequest): void => {
    let isAnswered = false;
    const answer = (given: string): void => {
      if (isAnswered) return;
      isAnswered = true;
      const counts = (answers[`${method} ${path}`] ??= {});
      counts[given] = (counts[given] ?? 0) + 1;
    };
    const sent = request({ agent, host, port, method, path, timeout: TIMEOUT_MS });
    sent.on('response', (response) => {
      answer(String(response.statusCode));
      response.resume().on('error', () => undefined);
    });
    sent.on('timeout', () => sent.destroy());
    sent.on('error', () => answer('none'));
    sent.end();
  };
  const beganMs = performance.now();
  for (let sentAll = 0; ;) {
    const due = Math.floor(((performance.now() - beganMs) * perSecond) / 1000);
    // What could not be sent in time is left out: a backlog would be another test.
    const now = Math.min(due - sentAll, perSecond / 10);
    for (let each = 0; each < now; each += 1) send(requests[(sentAll + each) % requests.length] as StreamedRequest);
    sentAll = due;
    await sleep(TICK_MS);
  }
}
