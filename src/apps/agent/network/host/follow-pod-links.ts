import { isDeepStrictEqual } from 'node:util';
import type { RetryPorts } from '../../../../base/back-off.ts';
import type { Log } from '../../../../base/log.ts';
import { aborted } from '../../../../base/until-aborted.ts';
import type { HostNetwork } from '../../../../dataplane/host-network.ts';
import type { PodLinkNames } from '../../../../policy/pod-link-names.ts';
import { Reconciler } from '../../../../runtime/reconciler.ts';
import { podLinkNames, type PodLinks, readPodLinks } from './read-pod-links.ts';

/** The kernel reports changes; what it may have lost is found within this time. */
const RESYNC_MS = 10_000;

interface FollowPorts extends RetryPorts {
  readonly log: Log;
  readonly host: Pick<HostNetwork, 'listInterfaces' | 'listPaths' | 'lookUp' | 'watch'>;
  /** Receives the interfaces when they have changed; first of all what was found first. */
  readonly onChange: (links: PodLinks, areOthersChanged: boolean) => void;
}

/** Follows the interfaces of pods that another plugin connects, whose names begin with one of the prefixes. */
export class PodLinkFollower {
  readonly #ports: FollowPorts;
  readonly #prefixes: readonly string[];
  readonly #reconciler: Reconciler;
  readonly #read = Promise.withResolvers<void>();
  #links: PodLinks | undefined;

  constructor(ports: FollowPorts, prefixes: readonly string[]) {
    this.#ports = ports;
    this.#prefixes = prefixes;
    const { clock, random, log } = ports;
    this.#reconciler = new Reconciler({
      name: 'pod interfaces',
      clock,
      random,
      log,
      reconcile: async () => this.#reconcile(),
      resyncMs: RESYNC_MS,
    });
  }

  get names(): PodLinkNames {
    return podLinkNames(this.#prefixes, this.#links?.others ?? []);
  }

  /** Resolves when the interfaces have been read once, at once without prefixes. */
  async read(signal: AbortSignal): Promise<void> {
    if (this.#prefixes.length > 0) await Promise.race([this.#read.promise, aborted(signal)]);
  }

  failures(): readonly string[] {
    return this.#prefixes.length === 0 ? [] : this.#reconciler.report('failure');
  }

  /** Interfaces with a prefix that are not of pods, a sentence each. */
  problems(): readonly string[] {
    return (this.#links?.others ?? []).map(
      (name) =>
        `policy: interface "${name}" begins with NETPLUG_INTERFACE_PREFIX and has an IPv4 address of a subnet: it is not of a pod, and no policies of pods apply to it`,
    );
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#prefixes.length === 0) return;
    using _watch = this.#ports.host.watch(({ kind }) => {
      if (kind === 'links' || kind === 'paths' || kind === 'unknown') this.#reconciler.trigger();
    });
    this.#reconciler.trigger();
    await this.#reconciler.run(signal);
  }

  async #reconcile(): Promise<void> {
    const links = await readPodLinks(this.#ports.host, this.#prefixes);
    const before = this.#links;
    this.#links = links;
    if (!isDeepStrictEqual(links, before))
      this.#ports.onChange(links, !isDeepStrictEqual(links.others, before?.others ?? []));
    this.#read.resolve();
  }
}
