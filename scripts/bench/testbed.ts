// One node with candidates, a launcher and namespaces that wait for pods. Every row starts its own, so that none finds
// what another has left.
import { startNode, type TestNode } from '../../test/support/node.ts';
import {
  type Attachment,
  type Candidate,
  type CandidateName,
  jobOf,
  openCandidates,
  type OtherDatastore,
  type Verb,
} from './candidates.ts';
import { type Batch, type Launcher, type Run, startLauncher } from './launcher.ts';

export interface Testbed extends AsyncDisposable {
  readonly node: TestNode;
  readonly launcher: Launcher;
  readonly candidates: readonly Candidate[];
  /** Pods of one call of `attach`, one namespace each. */
  readonly namespaces: readonly string[];
  /** Runs the verb for each of the pods, and checks every answer. */
  call(candidate: Candidate, verb: Verb, options: CallOptions): Promise<Batch>;
}

export interface CallOptions {
  readonly pods: readonly Attachment[];
  readonly atOnce?: number;
}

export interface TestbedOptions {
  readonly candidates: readonly CandidateName[];
  readonly namespaces: number;
  /** Starts one that the node reaches, before the candidates. */
  readonly datastore?: (node: TestNode) => Promise<OtherDatastore>;
}

/** Its etcd syncs every write to disk, as in production. */
export async function openTestbed({
  candidates: names,
  namespaces: count,
  datastore,
}: TestbedOptions): Promise<Testbed> {
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ durable: true }));
  const candidates = await openCandidates(node, { names, datastore: await datastore?.(node) }, scope);
  const launcher = scope.use(await startLauncher(node));
  const namespaces: string[] = [];
  while (namespaces.length < count) namespaces.push((await node.pod()).path);
  const kept = scope.move();
  return {
    node,
    launcher,
    candidates,
    namespaces,
    call: async (candidate, verb, { pods, atOnce = 1 }) => {
      const batch = await launcher.run(
        pods.map((pod) => jobOf(candidate, verb, pod)),
        { atOnce },
      );
      for (const run of batch.runs) check(run, { candidate, verb, log: () => launcher.log() });
      return batch;
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

let pods = 0;

/** New pods, as many as asked for, in namespaces of the testbed. */
export function newPods({ namespaces }: Pick<Testbed, 'namespaces'>, count: number): Attachment[] {
  if (count > namespaces.length) throw new Error(`${String(count)} pods in ${String(namespaces.length)} namespaces`);
  return namespaces.slice(0, count).map((netns) => {
    pods += 1;
    return { containerId: `bench-${String(pods)}`, netns };
  });
}

const LOG_SHOWN = 2000;

function check(
  { status, stdout }: Run,
  { candidate, verb, log }: { candidate: Candidate; verb: Verb; log: () => string },
): void {
  const hasAddress = verb !== 'ADD' || /"address":\s*"[0-9a-f.:]+\/\d+"/.test(stdout);
  if (status === 0 && hasAddress) return;
  throw new Error(`${candidate.name} ${verb} ended with ${String(status)}: ${stdout}\n${log().slice(-LOG_SHOWN)}`);
}
