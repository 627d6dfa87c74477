import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { followResources, type ResourceChange } from '../../../cache/resource-view.ts';
import type { ResourceKind } from '../../../model/kinds.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { FollowedResources } from './followed-resources.ts';
import type { GetOptions } from './get.ts';
import { isWanted } from './listing.ts';
import { eventRenderer } from './output/render-events.ts';
import type { Target } from './target.ts';

/** Time before a lost watch is restarted. */
const AGAIN_MS = 1000;
/** The longest a timer can run. */
const FOREVER_MS = 2 ** 31 - 1;

/** Shows resources of one kind, and every change of them, until interrupted. */
export async function watch(context: Context, options: GetOptions): Promise<Status> {
  const { io, stopped, ports } = context;
  const { kind, names } = watchable(options.target);
  const render = eventRenderer(kind, options);
  const followed = new FollowedResources(
    (resource) => isWanted(resource, options) && (names.length === 0 || names.includes(resource.metadata.name)),
  );
  let hasBegun = false;
  const onChange = (change: ResourceChange): void => {
    for (const problem of problemsOf(change)) io.stderr(`warning: ${problem}\n`);
    const events = followed.events(change);
    // The first answer has its titles even when there is nothing yet.
    if (events.length > 0 || !hasBegun) io.stdout(render(events));
    hasBegun = true;
  };
  return withStore(context, 'read', async (store) => {
    const awake = new AbortController();
    // A watch does not keep the process alive.
    void ports.clock.sleep(FOREVER_MS, awake.signal).catch(() => undefined);
    try {
      while (!stopped.aborted) {
        try {
          for await (const change of followResources(store, kind, stopped)) onChange(change);
        } catch (cause) {
          // Who never saw anything has named the wrong datastore, most likely.
          if (!hasBegun || !isNetplugError(cause, 'store/unavailable')) throw cause;
          reportError(io, cause);
          await ports.clock.sleep(AGAIN_MS, stopped).catch(() => undefined);
        }
      }
      return 0;
    } finally {
      awake.abort();
    }
  });
}

function watchable(target: Target): { readonly kind: ResourceKind; readonly names: readonly string[] } {
  const [wanted, ...more] = target.by === 'name' ? target.wanted : [];
  if (wanted === undefined || more.length > 0)
    throw usage(`${wanted === undefined ? 'files' : 'several kinds'} are named`);
  const { kind, names } = wanted;
  if (kind === 'WorkloadEndpoint') throw usage('endpoints cannot be followed');
  return { kind, names };
}

function problemsOf(change: ResourceChange): readonly string[] {
  if (change.kind === 'all') return change.problems;
  return change.problem === undefined ? [] : [change.problem];
}

function usage(state: string): NetplugError {
  return new NetplugError('cli/usage', `Cannot watch: ${state}`, { hint: 'Name one kind, such as ippools' });
}
