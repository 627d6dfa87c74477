import { timeLimit } from '../../../base/clock.ts';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { INSTALL_NAMESPACE } from '../../../install/cluster/objects.ts';
import type { NamedLease } from '../../../runtime/leader-lease.ts';
import type { UpgradeSession } from './open-upgrade.ts';

/** Of the Lease, in the namespace of the installation. */
const NAME = 'netplug-upgrade';
/** A call that was killed keeps others out for so long. */
const DURATION_MS = 6000;
const POLL_MS = 500;
const RELEASE_MS = 3000;

/**
 * Does the work while no other call changes the release of the cluster, from whichever machine. The signal of the context
 * aborts when another call has taken over, as after a pause of this one. Who may not write Leases is warned, and goes on.
 * @throws upgrade/in-progress
 */
export async function whileAlone<T>(
  session: UpgradeSession,
  work: (session: UpgradeSession) => Promise<T>,
): Promise<T> {
  const { api, context } = session;
  const { clock, hostname, openLease, random } = context.ports;
  const lease = openLease(api, {
    namespace: INSTALL_NAMESPACE,
    name: NAME,
    holder: `${hostname}_${random.id()}`,
    durationMs: DURATION_MS,
  });
  await acquire(lease, session);
  const [lost, over] = [new AbortController(), new AbortController()];
  const renewing = (async () => {
    while (!over.signal.aborted && !lost.signal.aborted) {
      await clock.sleep(DURATION_MS / 3, over.signal).catch(() => undefined);
      // An API server that is upgraded itself does not answer at times.
      if (!(await lease.hold(over.signal).catch(() => true))) lost.abort();
    }
  })();
  const signal = AbortSignal.any([context.signal, lost.signal]);
  try {
    return await work({ ...session, context: { ...context, signal } });
  } catch (cause) {
    throw lost.signal.aborted && !context.signal.aborted ? await inProgress(lease, 'has taken over') : cause;
  } finally {
    over.abort();
    await renewing;
    using limit = timeLimit(RELEASE_MS);
    await lease.release(limit.signal).catch(() => undefined);
  }
}

/** Waits for the end of a call that was killed. @throws upgrade/in-progress */
async function acquire(lease: NamedLease, session: UpgradeSession): Promise<void> {
  const { io, ports, signal } = session.context;
  const endMs = ports.clock.monotonic() + DURATION_MS + 2 * POLL_MS;
  try {
    while (!(await lease.hold(signal))) {
      if (ports.clock.monotonic() > endMs) throw await inProgress(lease, 'is at work');
      await ports.clock.sleep(POLL_MS, signal);
    }
  } catch (cause) {
    // Its namespace is missing, or a right; what needs them says so.
    if (!isNetplugError(cause, 'store/refused')) throw cause;
    io.stderr(`warning: no other call is kept out: ${cause.message}\n`);
  }
}

async function inProgress(lease: NamedLease, does: string): Promise<NetplugError> {
  using limit = timeLimit(RELEASE_MS);
  const found = await lease.findHolder(limit.signal).catch(() => undefined);
  const holder = (found ?? '').replace(/_[^_]*$/, '');
  return new NetplugError(
    'upgrade/in-progress',
    `Cannot change the release of this cluster: another call of netplugctl ${does}${holder === '' ? '' : ` on ${holder}`}`,
    {
      hint: `Wait until it ends; "kubectl -n ${INSTALL_NAMESPACE} get lease ${NAME}" shows it`,
      facts: { holder },
    },
  );
}
