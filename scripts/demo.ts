// Demonstrates the main task: pods get their network through the real executables and talk, on one node first,
// between two then. Everything happens in namespaces of its own, with its own etcd; the machine is left as it was, also
// after Ctrl-C.
import { startFabric } from '../test/support/fabric.ts';
import { startNode } from '../test/support/node.ts';
import { showOneNode } from './demo/one-node.ts';
import { say } from './demo/screen.ts';
import { showTwoNodes } from './demo/two-nodes.ts';

const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.once(name, () => {
    stop.abort(new Error(`stopped by ${name}`));
  });
}

try {
  await show(startNode, showOneNode);
  await show(async () => startFabric({ nodes: { n1: 'a', n2: 'a' } }), showTwoNodes);
} catch (cause) {
  if (!stop.signal.aborted) throw cause;
  say('stopped', 'everything is removed');
  // What was being shown would go on, and fail, without what it was shown on.
  process.exit(130);
}

/** Everything made goes with the bed. */
async function show<Bed extends AsyncDisposable>(
  makeBed: () => Promise<Bed>,
  part: (bed: Bed) => Promise<void>,
): Promise<void> {
  await using bed = await makeBed();
  await Promise.race([part(bed), stopped()]);
}

async function stopped(): Promise<never> {
  stop.signal.throwIfAborted();
  return new Promise((_, reject) => {
    stop.signal.addEventListener('abort', () => {
      reject(stop.signal.reason as Error);
    });
  });
}
