import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import { systemClock } from '../../base/clock.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { OrchAccess } from '../../kube/access.ts';
import { apiError, judgeAnswer } from '../../kube/answers.ts';
import { reasonOf } from '../../base/errors.ts';
import { loadSession } from '../../kube/load-session.ts';
import { credentialHeaders, type Session } from '../../kube/session.ts';
import { type ApiObject, readPage } from '../../kube/objects.ts';
import { type Collection, collectionPath, NODES } from '../../kube/paths.ts';
import { Http1Transport, type RawAnswer, readAnswer, type Transport } from '../../kube/transport.ts';
import { clockSkewMs } from '../clock-skew.ts';
import type { DatastoreReport, Inspector } from '../inspector.ts';
import type { Manifest } from '../../model/manifest.ts';
import { NETPLUG_NODES } from '../../model/netplug-node.ts';
import { describeRight, type Right } from '../../model/right.ts';
import { netplugNodeOf, publicationFault } from './netplug-nodes.ts';
import { hasFacts } from './node-annotations.ts';

const CONNECTIONS = 8;
const REVIEWS = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

const Version = v.object({ gitVersion: v.string() });
const Review = v.object({ status: v.object({ allowed: v.boolean() }) });
const Resources = v.object({ resources: v.array(v.object({ kind: v.string() })) });
const Definition = v.object({
  spec: v.object({ versions: v.array(v.object({ schema: v.optional(v.unknown()) })) }),
});

const NodeStatus = v.object({
  conditions: v.optional(v.array(v.object({ type: v.string(), status: v.string() }))),
});

/** What an API should have and grant. */
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
  const transport = new Http1Transport(CONNECTIONS);
  return {
    inspect: async (signal) => {
      const session = await loadSession(access, { env, now: systemClock.now }, signal);
      return new Inspection({ transport, session, declared }, signal).report();
    },
    [Symbol.asyncDispose]: async () => {
      transport.close();
      await Promise.resolve();
    },
  };
}

/** One inspection of one API. */
class Inspection {
  readonly #transport: Transport;
  readonly #session: Session;
  readonly #declared: Declared;
  readonly #signal: AbortSignal;

  constructor(
    {
      transport,
      session,
      declared,
    }: { readonly transport: Transport; readonly session: Session; readonly declared: Declared },
    signal: AbortSignal,
  ) {
    this.#transport = transport;
    this.#session = session;
    this.#declared = declared;
    this.#signal = signal;
  }

  async report(): Promise<DatastoreReport> {
    const sentMs = systemClock.now();
    const answer = await this.#ask('/version');
    const skewMs = clockSkewMs({ sentMs, receivedMs: systemClock.now(), date: answer.headers.date });
    const version = v.safeParse(Version, tryParseJson(answer.text));
    return {
      server: `Kubernetes ${version.success ? version.output.gitVersion : 'of unknown version'}`,
      alarms: [],
      ...(skewMs === undefined ? {} : { skewMs }),
      missingKinds: await this.#missingKinds(),
      differingKinds: await this.#differingKinds(),
      unpublishedNodes: await this.#unpublishedNodes(),
      missingRights: this.#declared.missingRights(await this.#granted()),
    };
  }

  async #missingKinds(): Promise<readonly string[]> {
    const answer = await this.#ask('/apis/netplug.io/v3');
    const found = v.safeParse(Resources, tryParseJson(answer.text));
    // A group without definitions does not exist.
    const known = found.success ? found.output.resources.map(({ kind }) => kind) : [];
    return this.#declared.definitions.map((manifest) => partsOf(manifest).kind).filter((kind) => !known.includes(kind));
  }

  /** Nodes without an agent have nothing to publish; one that is not Ready may have an agent that cannot write. */
  async #unpublishedNodes(): Promise<DatastoreReport['unpublishedNodes']> {
    const objects = new Map((await this.#list(NETPLUG_NODES)).map((object) => [object.metadata.name, object]));
    return (await this.#list(NODES)).filter(isReadyWithAgent).flatMap((node) => {
      const { name } = node.metadata;
      const fault = publicationFault(objects.get(name), netplugNodeOf(node));
      return fault === undefined ? [] : [{ node: name, fault }];
    });
  }

  /** Empty for a caller without the right to list. */
  async #list(collection: Collection): Promise<readonly ApiObject[]> {
    const answer = await this.#ask(collectionPath(collection));
    return (answer.status === 200 ? readPage(tryParseJson(answer.text))?.items : undefined) ?? [];
  }

  /** Empty for a caller without the right to read definitions. */
  async #differingKinds(): Promise<readonly string[]> {
    const checked = await Promise.all(
      this.#declared.definitions.map(async (manifest): Promise<string[]> => {
        const { name, kind, schema } = partsOf(manifest);
        const answer = await this.#ask(`${DEFINITIONS}/${name}`);
        const found = v.safeParse(Definition, tryParseJson(answer.text));
        if (answer.status !== 200 || !found.success) return [];
        const isSame = found.output.spec.versions.some((version) => isDeepStrictEqual(version.schema, schema));
        return isSame ? [] : [kind];
      }),
    );
    return checked.flat();
  }

  async #granted(): Promise<ReadonlySet<string>> {
    const answers = await Promise.all(
      this.#declared.rights.map(async (right) => ({ right, isGranted: await this.#may(right) })),
    );
    return new Set(answers.filter(({ isGranted }) => isGranted).map(({ right }) => describeRight(right)));
  }

  async #may({ group, resource: path, verb }: Right): Promise<boolean> {
    const [resource = '', subresource] = path.split('/');
    const attributes = { group, resource, verb, ...(subresource === undefined ? {} : { subresource }) };
    const body = JSON.stringify({
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: attributes },
    });
    const answer = await this.#ask(REVIEWS, body);
    const review = v.safeParse(Review, tryParseJson(answer.text));
    if (review.success) return review.output.status.allowed;
    const verdict = judgeAnswer(answer);
    throw this.#unavailable('message' in verdict ? verdict.message : 'the answer has an unknown format');
  }

  async #ask(path: string, body?: string): Promise<RawAnswer> {
    const headers = {
      accept: 'application/json',
      'user-agent': 'netplug',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...credentialHeaders(this.#session.credential),
    };
    const request = { method: body === undefined ? 'GET' : 'POST', path, headers, body };
    try {
      return await readAnswer(await this.#transport.open(this.#session, request, { signal: this.#signal }));
    } catch (cause) {
      this.#signal.throwIfAborted();
      throw this.#unavailable(reasonOf(cause), cause);
    }
  }

  #unavailable(reason: string, cause?: unknown): Error {
    return apiError('store/unavailable', { reason, session: this.#session, now: systemClock.now(), cause });
  }
}

function partsOf(manifest: Manifest): { readonly name: string; readonly kind: string; readonly schema: unknown } {
  // Ours, of the form that crd-manifests.ts gives them.
  const { metadata, spec } = manifest as {
    metadata: { name: string };
    spec: { names: { kind: string }; versions: [{ schema: unknown }] };
  };
  return { name: metadata.name, kind: spec.names.kind, schema: spec.versions[0].schema };
}

function isReadyWithAgent({ metadata, status }: ApiObject): boolean {
  const read = v.safeParse(NodeStatus, status ?? {});
  const conditions = read.success ? (read.output.conditions ?? []) : [];
  const isReady = conditions.some((each) => each.type === 'Ready' && each.status === 'True');
  return isReady && hasFacts(metadata.annotations ?? {});
}
