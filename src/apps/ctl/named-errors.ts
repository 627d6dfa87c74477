import type { ErrorCode } from '../../base/error-codes.ts';
import { errnoOf, isNetplugError, NetplugError } from '../../base/errors.ts';
import type { ConnectionOrigin, Datastore } from '../../config/connection.ts';
import type { CtlPorts } from './ports.ts';

/** Errors about a datastore as a whole, or about a connection to it. */
const NAMED: readonly ErrorCode[] = [
  'store/unavailable',
  'store/refused',
  'store/config-invalid',
  'store/locked',
  'store/replaced',
  'store/corrupt',
  'netconf/needs-orchestrator',
  'cli/version-mismatch',
];

/** Returns the dependencies with datastores and APIs whose errors begin with the origin of their connection. */
export function withNamedErrors(ports: CtlPorts): CtlPorts {
  const { plugin } = ports;
  return {
    ...ports,
    openStore: (datastore) => opened(originOf(datastore), () => ports.openStore(datastore)),
    openInspector: (datastore) => opened(originOf(datastore), () => ports.openInspector(datastore)),
    openApi: (settings, fence) => opened(settings.origin, () => ports.openApi(settings, fence)),
    listEnforcedPolicies: async (settings, signal) =>
      namingErrors(settings.origin, async () => ports.listEnforcedPolicies(settings, signal)),
    plugin: { ...plugin, openOrch: (settings) => opened(settings.origin, () => plugin.openOrch(settings)) },
  };
}

/** Does `work`, and names the origin in its errors about the datastore. */
export async function namingErrors<T>(origin: ConnectionOrigin | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw named(cause, origin);
  }
}

export function originOf(datastore: Datastore): ConnectionOrigin | undefined {
  return datastore.type === 'orch' ? datastore.orch.origin : datastore.origin;
}

/** Opens a port, and names the origin in the errors of opening and of every method. */
function opened<T extends object>(origin: ConnectionOrigin | undefined, open: () => T): T {
  if (origin === undefined) return open();
  try {
    return withNames(open(), origin);
  } catch (cause) {
    throw named(cause, origin);
  }
}

function withNames<T extends object>(target: T, origin: ConnectionOrigin): T {
  return new Proxy(target, {
    get: (port, key) => {
      const member: unknown = Reflect.get(port, key, port);
      // A port may have a narrower one as a field.
      if (typeof member === 'object' && member !== null) return withNames(member, origin);
      if (typeof member !== 'function') return member;
      return (...given: readonly unknown[]): unknown => {
        const answer: unknown = Reflect.apply(member, port, given);
        if (answer instanceof Promise) return namingErrors(origin, async () => answer);
        return isAsyncIterable(answer) ? eachNamed(answer, origin) : answer;
      };
    },
  });
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

async function* eachNamed(items: AsyncIterable<unknown>, origin: ConnectionOrigin): AsyncGenerator {
  try {
    yield* items;
  } catch (cause) {
    throw named(cause, origin);
  }
}

function named(cause: unknown, origin: ConnectionOrigin | undefined): unknown {
  if (origin === undefined || !isNetplugError(cause, ...NAMED) || 'connection' in cause.facts) return cause;
  const { code, message, hint, facts } = cause;
  const { from, why, ifRefused } = origin;
  const isRefused = code === 'store/refused' || errnoOf(cause.cause) === 'EACCES';
  const advice = isRefused ? (ifRefused ?? hint) : hint;
  return new NetplugError(code, `Using ${from} (${why}): ${message}`, {
    ...(advice === undefined ? {} : { hint: advice }),
    facts: { ...facts, connection: from },
    cause: cause.cause,
  });
}
