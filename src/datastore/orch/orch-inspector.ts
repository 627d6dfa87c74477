import { findObject } from '../../kube/objects/apply.ts';
import { referenceOf } from '../../kube/objects/reference.ts';
import { isConditionTrue } from '../../kube/status/conditions.ts';
import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import { systemClock } from '../../base/clock.ts';
import { isNetplugError } from '../../base/errors.ts';
import { isAllowed } from '../../kube/access-review.ts';
import type { OrchAccess } from '../../kube/access.ts';
import { isUnknownKind } from '../../kube/answers.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { OrchApi } from '../../kube/orch-api.ts';
import { NODES } from '../../kube/paths.ts';
import { Http1Transport, type Transport } from '../../kube/transport.ts';
import { clockSkewMs, type Exchange } from '../clock-skew.ts';
import type { DatastoreReport, Inspector } from '../inspector.ts';
import type { Manifest } from '../../model/manifest.ts';
import { NETPLUG_NODES } from '../../model/netplug-node.ts';
import { describeRight, type Right } from '../../model/right.ts';
import { netplugNodeOf, publicationFault } from './netplug-nodes.ts';
import { hasFacts } from './node-annotations.ts';

const CONNECTIONS = 8;

const Definition = v.object({
  spec: v.object({ versions: v.array(v.object({ schema: v.optional(v.unknown()) })) }),
});

/** Definitions and rights that an API should have and grant. */
interface Declared {
  readonly definitions: readonly Manifest[];
  /** The rights of every caller. */
  readonly rights: readonly Right[];
  /** Returns what the caller lacks of its roles; a right is described by `describeRight`. */
  readonly missingRights: (granted: ReadonlySet<string>) => DatastoreReport['missingRights'];
}

interface InspectorOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly declared: Declared;
}

/** Looks at the API of the orchestrator with the caller's own rights. */
export function openOrchInspector(access: OrchAccess, { env, declared }: InspectorOptions): Inspector {
  const exchanges: Exchange[] = [];
  const transport = timedTransport(new Http1Transport(CONNECTIONS), exchanges);
  // A datastore that answers is inspected: there is no outage to wait for.
  const api = new OrchApi(access, { env, transport, limits: { retryMs: 0 } });
  return {
    inspect: async (signal) => {
      const server = `Kubernetes ${await api.serverVersion(signal)}`;
      const skewMs = exchanges[0] === undefined ? undefined : clockSkewMs(exchanges[0]);
      return {
        server,
        alarms: [],
        ...(skewMs === undefined ? {} : { skewMs }),
        missingKinds: await findMissingKinds(api, declared.definitions, signal),
        differingKinds: await findDifferingKinds(api, declared.definitions, signal),
        unpublishedNodes: await findUnpublishedNodes(api, signal),
        missingRights: declared.missingRights(await findGranted(api, declared.rights, signal)),
      };
    },
    [Symbol.asyncDispose]: async () => {
      transport.close();
      await Promise.resolve();
    },
  };
}

/** Notes when each answer came, and the time that it names. */
function timedTransport(inner: Transport, exchanges: Exchange[]): Transport {
  return {
    open: async (session, request, options) => {
      const sentMs = systemClock.now();
      const answer = await inner.open(session, request, options);
      exchanges.push({ sentMs, receivedMs: systemClock.now(), date: answer.headers.date });
      return answer;
    },
    close: () => {
      inner.close();
    },
  };
}

async function findMissingKinds(
  api: OrchApi,
  definitions: Declared['definitions'],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const served = await api.servedKinds(signal);
  return definitions
    .filter((manifest) => !served.includes(referenceOf(manifest).name.replace(/^(.*?)\.(.*)$/, '$2/$1')))
    .map((manifest) => partsOf(manifest).kind);
}

/** Empty for a caller without the right to read definitions. */
async function findDifferingKinds(
  api: OrchApi,
  definitions: Declared['definitions'],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const checked = await Promise.all(
    definitions.map(async (manifest): Promise<string[]> => {
      const { kind, schema } = partsOf(manifest);
      const live = await unlessRefused(undefined, async () => findObject(api, referenceOf(manifest), signal));
      const found = v.safeParse(Definition, live);
      const isSame =
        !found.success || found.output.spec.versions.some((each) => isDeepStrictEqual(each.schema, schema));
      return isSame ? [] : [kind];
    }),
  );
  return checked.flat();
}

/** Nodes without an agent have nothing to publish; one that is not Ready may have an agent that cannot write. */
async function findUnpublishedNodes(api: OrchApi, signal: AbortSignal): Promise<DatastoreReport['unpublishedNodes']> {
  const [published, nodes] = await Promise.all(
    [NETPLUG_NODES, NODES].map(async (kind) => unlessRefused([], async () => api.list(kind, {}, signal))),
  );
  const objects = new Map((published ?? []).map((object) => [object.metadata.name, object]));
  return (nodes ?? []).filter(isReadyWithAgent).flatMap((node) => {
    const { name } = node.metadata;
    const fault = publicationFault(objects.get(name), netplugNodeOf(node));
    return fault === undefined ? [] : [{ node: name, fault }];
  });
}

async function findGranted(api: OrchApi, rights: readonly Right[], signal: AbortSignal): Promise<ReadonlySet<string>> {
  const granted = await Promise.all(
    rights.map(async (right) => {
      const [resource = '', subresource] = right.resource.split('/');
      const attributes = { ...right, resource, ...(subresource === undefined ? {} : { subresource }) };
      return (await isAllowed(api, attributes, signal)) ? [describeRight(right)] : [];
    }),
  );
  return new Set(granted.flat());
}

/** Returns `fallback` for a caller without the right, and where the kind does not exist. */
async function unlessRefused<T>(fallback: T, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (!isNetplugError(cause, 'store/refused') && !isUnknownKind(cause)) throw cause;
    return fallback;
  }
}

function partsOf(manifest: Manifest): { readonly kind: string; readonly schema: unknown } {
  // Ours, of the form that crd-manifests.ts gives them.
  const { spec } = manifest as { spec: { names: { kind: string }; versions: [{ schema: unknown }] } };
  return { kind: spec.names.kind, schema: spec.versions[0].schema };
}

function isReadyWithAgent(node: ApiObject): boolean {
  return isConditionTrue(node, 'Ready') && hasFacts(node.metadata.annotations ?? {});
}
