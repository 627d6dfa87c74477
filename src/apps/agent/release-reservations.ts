import type { RetryPorts } from '../../base/back-off.ts';
import { reasonOf } from '../../base/errors.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import type { Log } from '../../base/log.ts';
import { visibleText } from '../../base/visible-text.ts';
import { freeBlankFiles } from '../../cni/blank-files.ts';
import type { DelegatedNetwork } from '../../cni/delegated-networks.ts';
import { hostLocalFolder } from '../../cni/host-local-files.ts';
import {
  delOf,
  findLeaked,
  type LeakedReservation,
  readTraces,
  type TracePorts,
} from '../../cni/leaked-reservations.ts';
import { isJsonObject } from '../../cni/result.ts';
import { handleOf, interfaceKey } from '../../model/names.ts';
import { formatAddress } from '../../net/address.ts';
import { Reconciler } from '../../runtime/reconciler.ts';
import type { ServeOrdered } from './per-container.ts';
import type { CallAnswer } from './wire.ts';

const PERIOD_MS = 60_000;

export interface ReservationPorts extends RetryPorts, TracePorts {
  readonly log: Log;
  readonly serveCall: ServeOrdered;
  /** Returns the installed networks of netplug whose addresses another plugin manages. */
  readonly readNetworks: () => Promise<readonly DelegatedNetwork[]>;
  /** Locks an open file for this process; false while another one holds the lock. */
  readonly tryLock: (fd: number) => boolean;
  /** Folder of the plugins on the host. */
  readonly binDir: string;
}

/**
 * Releases what delegated address managers hold for attachments that have ended without a DEL, such as those of a node that lost
 * power: at the start of the agent, then every minute. Serves a DEL for each, as its runtime would have called it.
 */
export class ReservationReleaser {
  readonly #ports: ReservationPorts;
  readonly #reconciler: Reconciler;
  /** Their DEL failed, by handle: it may have removed every trace that the node had of them. */
  readonly #failed = new Map<string, { readonly leaked: LeakedReservation; readonly failure: string }>();
  #unread: string | undefined;

  constructor(ports: ReservationPorts) {
    this.#ports = ports;
    this.#reconciler = new Reconciler({
      ...ports,
      name: 'reservations',
      reconcile: async (signal) => this.pass(signal),
      resyncMs: PERIOD_MS,
    });
  }

  /** Why reservations could not be released, a sentence each. */
  failures(): readonly string[] {
    return [...(this.#unread === undefined ? [] : [this.#unread]), ...this.#failures()];
  }

  async run(signal: AbortSignal): Promise<void> {
    this.#reconciler.trigger();
    await this.#reconciler.run(signal);
  }

  /** Continues after a DEL that failed. @throws cni/record-failed, kernel/failed, and an error that names what failed */
  async pass(signal: AbortSignal): Promise<void> {
    const due = await this.#findDue(signal).catch((cause: unknown) => {
      this.#unread = `leaked addresses of other address managers are not looked for: ${reasonOf(cause)}`;
      throw cause;
    });
    this.#unread = undefined;
    for (const [network, leaked] of due) await this.#release(network, leaked, signal);
    const failures = this.#failures();
    if (failures.length > 0) throw new Error(failures.join('; '));
  }

  async #findDue(signal: AbortSignal): Promise<readonly (readonly [DelegatedNetwork, LeakedReservation])[]> {
    const networks = await this.#ports.readNetworks();
    for (const [handle, { leaked }] of this.#failed)
      if (!networks.some(({ name }) => name === leaked.network)) this.#failed.delete(handle);
    const due: (readonly [DelegatedNetwork, LeakedReservation])[] = [];
    for (const network of networks) {
      await this.#freeBlank(network, signal);
      const again = [...this.#failed.values()]
        .map(({ leaked }) => leaked)
        .filter((each) => each.network === network.name);
      const found = findLeaked(network, await readTraces(this.#ports, network));
      const each = new Map([...again, ...found].map((leaked) => [handleOf(leaked), leaked]));
      due.push(...[...each.values()].map((leaked) => [network, leaked] as const));
    }
    return due;
  }

  async #freeBlank({ name, manager, conf }: DelegatedNetwork, signal: AbortSignal): Promise<void> {
    const folder = manager === 'host-local' ? hostLocalFolder(conf) : undefined;
    const freed = folder === undefined ? [] : await freeBlankFiles(folder, this.#ports, signal);
    const { log } = this.#ports;
    if (freed.length > 0)
      log.info('blank reservations removed', { network: name, addresses: freed.map(formatAddress) });
  }

  async #release(network: DelegatedNetwork, leaked: LeakedReservation, signal: AbortSignal): Promise<void> {
    const { serveCall, listAttached, binDir, log } = this.#ports;
    // An ADD of the container may have waited for its turn, too.
    const isDue = (): boolean => !listAttached().has(interfaceKey(leaked));
    const answer = await serveCall({ kind: 'netplug', ...delOf(network, leaked, binDir) }, signal, isDue);
    signal.throwIfAborted();
    const { containerId, ifName, pod } = leaked;
    const addresses = leaked.addresses.map(formatAddress);
    if (answer.status === 0) {
      this.#failed.delete(handleOf(leaked));
      log.info('leaked reservation released', { network: network.name, containerId, ifName, pod, addresses });
      return;
    }
    const what = `${addresses.join(' and ')} of container "${containerId}" in network "${network.name}"`;
    const failure = visibleText(`${network.manager} still holds ${what}, which no interface uses: ${reasonIn(answer)}`);
    this.#failed.set(handleOf(leaked), { leaked, failure });
  }

  #failures(): readonly string[] {
    return [...this.#failed.values()].map(({ failure }) => failure);
  }
}

function reasonIn({ stdout, status }: CallAnswer): string {
  const answer = tryParseJson(stdout);
  const message = isJsonObject(answer) ? answer['msg'] : undefined;
  return typeof message === 'string' ? message : `DEL ended with status ${String(status)}`;
}
