import { timeLimit } from '../base/clock.ts';
import { isNetplugError, reasonOf } from '../base/errors.ts';
import type { HostLink, LinkOwner } from '../dataplane/kernel.ts';
import { isLinkOf } from '../dataplane/link-alias.ts';
import type { KeptAttachment } from '../model/kept-attachments.ts';
import { interfaceKey } from '../model/names.ts';
import { isStaticPodUid } from '../model/pod.ts';
import { attachmentOf } from '../model/workload-endpoint.ts';
import type { CniCall, CniPorts } from './call.ts';
import { isKeptOf } from './gc.ts';
import { nameKept } from './kept-notes.ts';

/** A namespace that has just been removed is there until the kernel has let go of it. */
const ENDING_MS = 250;
/** For how long the API must have had no such pod before GC releases an attachment whose namespace exists. */
const GONE_MS = 600_000;
/** Maximum number of pods for which one GC asks the API, and the time that all its answers may take. */
const ASKED = 32;
const ASKING_MS = 5000;

/** The pod of an attachment, as the node has recorded it. */
interface RecordedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string | undefined;
}

/**
 * Returns the call of GC with the attachments added to the list of the runtime that it must not release: those to whose network
 * namespace a link of netplug leads, unless the API has had no such pod for ten minutes. Logs and notes them. A runtime knows only
 * its own attachments, and another one may use the network too.
 */
export async function spareLiving(ports: CniPorts, call: CniCall): Promise<CniCall> {
  const living = await livingUnlisted(ports, call);
  const { network } = call.attachment;
  const pods = living.length === 0 ? new Map<string, RecordedPod>() : await recordedPods(ports, call);
  const kept = await keptOf(ports, call, { living, pods });
  const at = new Date(ports.clock.now()).toISOString();
  await ports.keptNotes.put({ network, at, kept }).catch((cause: unknown) => {
    ports.log.warning('kept attachments not noted', { network, reason: reasonOf(cause) });
  });
  if (kept.length === 0) return call;
  ports.log.warning('attachments kept', {
    network,
    node: call.node,
    count: kept.length,
    kept: nameKept(kept),
    reason: 'the runtime did not list them, but their network namespaces exist',
  });
  return withListed(call, kept);
}

/** Returns the owners of links to living namespaces that the runtime did not list. */
async function livingUnlisted({ kernel, clock }: CniPorts, call: CniCall): Promise<readonly LinkOwner[]> {
  const isListed = isKeptOf(call);
  const ownerOf = ({ owner }: HostLink): readonly LinkOwner[] =>
    owner === undefined || !isLinkOf(owner, call.attachment.network) || isListed(owner) ? [] : [owner];
  const find = (): readonly LinkOwner[] => kernel.listConnectedLinks().flatMap(ownerOf);
  if (find().length === 0) return [];
  await clock.sleep(ENDING_MS, call.signal);
  return find();
}

/** Returns the pods of the node by attachment. None when they cannot be read: nothing is then known to be gone. */
async function recordedPods({ store, log }: CniPorts, call: CniCall): Promise<ReadonlyMap<string, RecordedPod>> {
  try {
    const { endpoints } = await store.listEndpoints(call.node, call.signal);
    return new Map(
      endpoints.flatMap(({ value }) => {
        const { pod: name, podUID: uid } = value.spec;
        const { namespace = 'default' } = value.metadata;
        return name === undefined ? [] : [[interfaceKey(attachmentOf(value)), { namespace, name, uid }]];
      }),
    );
  } catch (cause) {
    log.debug('pods of kept attachments not read', { reason: reasonOf(cause) });
    return new Map();
  }
}

async function keptOf(
  { keptNotes, orch, clock, log }: CniPorts,
  call: CniCall,
  { living, pods }: { readonly living: readonly LinkOwner[]; readonly pods: ReadonlyMap<string, RecordedPod> },
): Promise<readonly KeptAttachment[]> {
  const notes = living.length === 0 ? [] : await keptNotes.list().catch(() => []);
  const noted = notes.find(({ network }) => network === call.attachment.network)?.kept ?? [];
  const before = new Map(noted.map((each) => [interfaceKey(each), each]));
  const nowMs = clock.now();
  const now = new Date(nowMs).toISOString();
  const judged: KeptAttachment[] = [];
  let asked = 0;
  using limit = timeLimit(ASKING_MS);
  const signal = AbortSignal.any([call.signal, limit.signal]);
  for (const owner of living.toSorted((a, b) => rankOf(before, a) - rankOf(before, b))) {
    const { containerId, ifName } = owner;
    const pod = pods.get(interfaceKey(owner));
    const { askedAt, goneSince } = before.get(interfaceKey(owner)) ?? {};
    const name = pod === undefined ? undefined : `${pod.namespace}/${pod.name}`;
    const mayAsk = call.config.policyType === 'orch' && asked < ASKED && pod !== undefined && !isStaticPodUid(pod.uid);
    if (!mayAsk) {
      judged.push({ containerId, ifName, pod: name, askedAt, goneSince });
      continue;
    }
    const isGone = await isPodGone(orch, pod, signal);
    // An API that does not answer is asked no more.
    asked += isGone === undefined ? ASKED : 1;
    const since = isGone === true ? (goneSince ?? now) : isGone === undefined ? goneSince : undefined;
    if (isGone === true && since !== undefined && nowMs - Date.parse(since) >= GONE_MS)
      log.info('attachment of a pod that is gone not kept', { containerId, ifName, pod: name, since });
    else judged.push({ containerId, ifName, pod: name, askedAt: now, goneSince: since });
  }
  return judged;
}

/** Orders attachments for questions to the API: those that seem to be gone first, then those that were not asked for the longest. */
function rankOf(before: ReadonlyMap<string, KeptAttachment>, owner: LinkOwner): number {
  const { goneSince, askedAt } = before.get(interfaceKey(owner)) ?? {};
  if (goneSince !== undefined) return -1;
  return askedAt === undefined ? 0 : Date.parse(askedAt);
}

/** Undefined when the API does not answer. Only another uid tells a pod from the next one of its name. */
async function isPodGone(
  orch: CniPorts['orch'],
  { namespace, name, uid }: RecordedPod,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  try {
    const pod = await orch.readPod({ namespace, name }, signal);
    return uid !== undefined && pod.uid !== uid;
  } catch (cause) {
    return isNetplugError(cause, 'orch/not-found') ? true : undefined;
  }
}

/** Adds the attachments to the list, also in what delegated plugins receive: they would release addresses that are in use. */
function withListed(call: CniCall, kept: readonly KeptAttachment[]): CniCall {
  const { config, raw } = call;
  const validAttachments = [...(config.runtime.validAttachments ?? []), ...kept];
  const list = validAttachments.map(({ containerId, ifName }) => ({ containerID: containerId, ifname: ifName }));
  return {
    ...call,
    config: { ...config, runtime: { ...config.runtime, validAttachments } },
    raw: { ...raw, 'cni.dev/valid-attachments': list, 'cni.dev/attachments': list },
  };
}
