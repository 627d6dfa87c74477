import { createConnection, type Socket } from 'node:net';
import { errnoOf, NetplugError } from '../base/errors.ts';

/** One line of a reply of BIRD: a code for the kind of line, and its text. */
export interface ReplyLine {
  readonly code: number;
  readonly text: string;
}

/** The reply of BIRD to one command: at least one line. The code of the last line is 8000 or more for a refusal. */
export type BirdReply = readonly ReplyLine[];

const REPLY_LIMIT_BYTES = 16 * 1024 * 1024;
const NOT_LISTENING = ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE'];

/**
 * Sends a command to the BIRD that listens at the path; undefined when none does.
 * @throws bgp/bird-failed for an oversized reply, and the signal's reason
 */
export async function askBird(path: string, command: string, signal: AbortSignal): Promise<BirdReply | undefined> {
  signal.throwIfAborted();
  const socket = createConnection({ path, signal });
  try {
    return await converse(socket, command);
  } catch (cause) {
    signal.throwIfAborted();
    if (NOT_LISTENING.includes(errnoOf(cause) ?? '')) return undefined;
    throw cause;
  } finally {
    socket.destroy();
  }
}

/** Resolves when the BIRD that listens at the path ends, at once when none does. */
export async function birdEnds(path: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const socket = createConnection({ path, signal });
  try {
    // BIRD sends a greeting, and then nothing until a command arrives.
    for await (const _ of socket);
  } catch (cause) {
    signal.throwIfAborted();
    if (!NOT_LISTENING.includes(errnoOf(cause) ?? '')) throw cause;
  } finally {
    socket.destroy();
  }
}

/** Reads the greeting, sends the command and reads the answer. Its last line has a space behind the number. */
async function converse(socket: Socket, command: string): Promise<BirdReply | undefined> {
  const lines: ReplyLine[] = [];
  let isGreeted = false;
  let rest = '';
  let bytes = 0;
  socket.setEncoding('utf8');
  for await (const chunk of socket) {
    const text = chunk as string; // with an encoding set, sockets yield strings
    bytes += text.length;
    if (bytes > REPLY_LIMIT_BYTES) throw birdFailed('the answer on the control socket exceeds 16 MiB');
    const whole = (rest + text).split('\n');
    rest = whole.pop() ?? '';
    for (const line of whole) {
      if (!isGreeted) {
        isGreeted = true;
        socket.write(`${command}\n`);
        continue;
      }
      lines.push(readLine(line, lines.at(-1)?.code ?? 0));
      if (/^\d{4}( |$)/.test(line)) return lines;
    }
  }
  return undefined;
}

/** `1002-text`, `0000 text`, or ` text`, which goes on with the code of the line before. */
function readLine(line: string, codeBefore: number): ReplyLine {
  const [, code, text] = /^(\d{4})[- ]?(.*)$/.exec(line) ?? [];
  return code === undefined ? { code: codeBefore, text: line.slice(1) } : { code: Number(code), text: text ?? '' };
}

export function birdFailed(state: string, hint = 'See the log of BIRD beside its configuration'): NetplugError {
  return new NetplugError('bgp/bird-failed', `Cannot route by BGP: ${state}`, { hint });
}
