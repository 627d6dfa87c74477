import { spawn } from 'node:child_process';

export interface ExecResult {
  /** Exit status, or undefined when a signal ended the program. */
  readonly status: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ExecOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Kills the program with SIGKILL when aborted. */
  readonly signal: AbortSignal;
}

const OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024;

/** Runs a program without a shell and collects its output. Rejects when the program cannot be started. */
export async function exec(
  file: string,
  args: readonly string[],
  { env, stdin = '', signal }: ExecOptions,
): Promise<ExecResult> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { env, stdio: 'pipe', signal, killSignal: 'SIGKILL' });
    const stdout = collect(child.stdout);
    const stderr = collect(child.stderr);
    child.on('error', (cause) => {
      reject(signal.aborted && signal.reason instanceof Error ? signal.reason : cause);
    });
    child.on('close', (status) => {
      resolve({ status: status ?? undefined, stdout: stdout(), stderr: stderr() });
    });
    // A program may exit without reading its input; its output and status are enough.
    child.stdin.on('error', () => undefined);
    child.stdin.end(stdin);
  });
}

function collect(stream: NodeJS.ReadableStream): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= OUTPUT_LIMIT_BYTES) chunks.push(chunk);
  });
  return () => Buffer.concat(chunks).toString('utf8');
}
