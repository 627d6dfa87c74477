import { isNetplugError, reasonOf } from '../../base/errors.ts';
import { counted } from '../../base/counted.ts';
import { aborted } from '../../base/until-aborted.ts';
import type { Store } from '../../datastore/store.ts';
import type { Datastore } from '../../config/connection.ts';
import { asNodeProblems, CALL_PROBLEMS, type NodeProblem, type Sentence } from '../../model/node-report.ts';
import { type ResidentOptions, type ResidentPorts, ResidentNode } from '../../ipam/node/resident-node.ts';
import type { ResidentState } from '../../ipam/node/resident-state.ts';
import { addressUse } from './address-use.ts';
import type { AgentStanding } from './metrics.ts';
import { type DatastoreId, identifyDatastore } from '../../ipam/node/datastore-id.ts';
import { callStore } from '../../ipam/node/call-store.ts';
import { EndedAttachments } from '../../ipam/node/ended-attachments.ts';
import { NamedDatastore } from '../../ipam/node/named-datastore.ts';
import { namedStore } from '../../ipam/node/named-store.ts';
import { type MachineIdentity, NameClaim } from '../../ipam/node/name-claim.ts';

interface Settings extends Omit<ResidentOptions, 'datastore'> {
  readonly machine: MachineIdentity;
}

/**
 * One resident node per datastore, opened when a call first names it and kept until the agent ends. Configurations that
 * reach the same datastore share one, however they spell it.
 */
export class ResidentNodes implements AsyncDisposable {
  readonly #open: (datastore: Datastore) => Store;
  readonly #ports: ResidentPorts;
  readonly #settings: Settings;
  readonly #nodes = new Map<DatastoreId, ResidentNode>();
  /** By the text of the configuration. */
  readonly #named = new Map<string, NamedDatastore>();
  /** By object identity, because decoded configurations are cached. */
  readonly #seen = new WeakMap<Datastore, NamedDatastore>();
  readonly #stop = new AbortController();
  readonly #nameLost = Promise.withResolvers<never>();

  constructor(open: (datastore: Datastore) => Store, ports: ResidentPorts, settings: Settings) {
    this.#open = open;
    this.#ports = ports;
    this.#settings = settings;
    // It may never be asked for.
    this.#nameLost.promise.catch(() => undefined);
  }

  get(datastore: Datastore): NamedDatastore {
    const seen = this.#seen.get(datastore);
    if (seen !== undefined) return seen;
    const text = JSON.stringify(datastore);
    const named = this.#named.get(text) ?? this.#name(datastore);
    this.#named.set(text, named);
    this.#seen.set(datastore, named);
    return named;
  }

  /** The resident node of the datastore, if a call has named it. */
  find(datastore: string): ResidentNode | undefined {
    return [...this.#nodes].find(([id]) => id === datastore)?.[1];
  }

  #name(datastore: Datastore): NamedDatastore {
    const store = this.#open(datastore);
    const { node } = this.#settings;
    const claim = new NameClaim({ ...this.#ports, store }, this.#settings);
    const inner = namedStore(store, claim);
    return new NamedDatastore(inner, {
      ...this.#ports,
      identify: async (signal) => {
        await claim.confirm(signal);
        return identifyDatastore({ ...this.#ports, store: inner }, { type: datastore.type, node }, signal);
      },
      join: (id, store) => {
        claim.keep(this.#stop.signal).catch((cause: unknown) => this.#nameLost.reject(cause));
        const known = this.#nodes.get(id);
        if (known !== undefined) return known;
        const opened = new ResidentNode(store, this.#ports, { datastore: id, ...this.#settings });
        this.#nodes.set(id, opened);
        const own = callStore({ inner: store, resolve: async () => Promise.resolve(opened) }, async (_, work) =>
          work(),
        );
        void new EndedAttachments({ ...this.#ports, store: own }, node).run(this.#stop.signal);
        return opened;
      },
    });
  }

  /** Resolves when the signal aborts. @throws agent/name-taken when another machine has taken the name of the node */
  async keepName(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#nameLost.promise, aborted(signal)]);
  }

  /** Returns the state of all datastores together. */
  standing(): Omit<AgentStanding, 'network' | 'problems' | 'tokenSecondsLeft'> {
    const states = this.#states();
    return {
      addresses: addressUse(states),
      waiting: states.reduce((sum, state) => sum + state.waiting, 0),
      isDatastoreUp:
        states.length > 0 && this.#unidentified().length === 0 && states.every(({ problem }) => problem === undefined),
    };
  }

  /** Returns why calls cannot be served now: an unavailable datastore only while the warm pool is empty. */
  problems(): readonly NodeProblem[] {
    return asNodeProblems(CALL_PROBLEMS.calls, this.#callProblems());
  }

  #callProblems(): readonly Sentence[] {
    if (this.#named.size === 0) return ['no datastore is open yet'];
    const states = this.#states().flatMap(({ isReady, problem }) =>
      isReady ? [] : [problem ?? 'the datastore is being read'],
    );
    return [...this.#unidentified(), ...states];
  }

  /** Returns what an administrator must act on although calls are served. */
  warnings(): readonly NodeProblem[] {
    const states = this.#states();
    return [
      ...asNodeProblems(CALL_PROBLEMS.pendingWrites, states.flatMap(pendingWrites)),
      ...asNodeProblems(
        CALL_PROBLEMS.lostAddress,
        states.flatMap(({ warnings }) => warnings),
      ),
    ];
  }

  #states(): readonly ResidentState[] {
    return this.#list().map(({ state }) => state);
  }

  #unidentified(): readonly Sentence[] {
    return [...this.#named.values()].flatMap(({ problem }) => (problem === undefined ? [] : sentenceOf(problem)));
  }

  #list(): readonly ResidentNode[] {
    return [...this.#nodes.values()];
  }

  /** Flushes the pending writes of every datastore and reclaims the warm pools until the signal aborts. */
  async drain(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#list().map(async (each) => each.drain(signal)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all([...this.#named.values()].map(async (each) => each.end()));
    await Promise.all(this.#list().map(async (each) => each.end()));
    this.#named.clear();
    this.#nodes.clear();
  }
}

/** An error that lasts until an administrator acts names itself and its remedy. */
function sentenceOf(problem: unknown): Sentence {
  if (!isNetplugError(problem, 'agent/name-taken')) return reasonOf(problem);
  return { code: problem.code, text: problem.message, remedy: problem.hint };
}

/** Calls go on from the warm pool while the datastore takes no writes, until that is empty. */
function pendingWrites({ isReady, problem, waiting }: ResidentState): readonly string[] {
  if (!isReady || problem === undefined) return [];
  return [
    `the datastore is unavailable, and ${counted(waiting, 'write')} ${waiting === 1 ? 'waits' : 'wait'}: ${problem}`,
  ];
}
