import { NetplugError } from '../base/errors.ts';

/** Room for the list of valid attachments of a large node; a network configuration is a thousand times smaller. */
const LIMIT_BYTES = 4 * 1024 * 1024;

/** Reads standard input to its end. @throws cni/input-undecodable, cni/input-failed, and the signal's reason */
export async function readStdin(signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const stop = (): void => {
    process.stdin.destroy();
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    for await (const chunk of process.stdin) {
      const piece = Buffer.from(chunk as Buffer); // without an encoding set, stdin yields buffers
      bytes += piece.length;
      if (bytes > LIMIT_BYTES) throw tooLarge();
      chunks.push(piece);
    }
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof NetplugError) throw cause;
    throw new NetplugError('cni/input-failed', `Cannot read the network configuration: ${String(cause)}`, {
      hint: 'Pass the network configuration on standard input',
      cause,
    });
  } finally {
    signal.removeEventListener('abort', stop);
    process.stdin.destroy();
  }
  signal.throwIfAborted();
  return Buffer.concat(chunks).toString('utf8');
}

function tooLarge(): NetplugError {
  return new NetplugError(
    'cni/input-undecodable',
    `Cannot read the network configuration: standard input holds more than ${String(LIMIT_BYTES)} bytes`,
    {
      hint: 'Pass one JSON object, as in examples/10-netplug.conflist',
    },
  );
}
