import { isDeepStrictEqual } from 'node:util';
import { keepRunning, type RetryPorts } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import { RecordCache } from '../../../../cache/record-cache.ts';
import {
  type EffectiveSettings,
  agentSettings,
  type ExplainedSetting,
  ownConfigurationName,
} from '../../../../config/agent-settings.ts';
import type { Env } from '../../../../config/environment.ts';
import type { FollowStore } from '../../../../datastore/follow.ts';
import type { AgentConfiguration } from '../../../../model/agent-configuration.ts';
import type { NodeName } from '../../../../model/names.ts';

interface SettingsPorts extends RetryPorts {
  readonly store: FollowStore;
  readonly log: Log;
  readonly env: Env;
  readonly node: NodeName;
  /** Receives the settings when they have changed. */
  readonly onChange: (settings: EffectiveSettings) => void;
}

/**
 * Follows the AgentConfigurations that apply to the node. While the datastore is unavailable the last settings apply. So does
 * what was last read of a record that has become unreadable: built-in failsafe ports could close the node.
 */
export class SettingsFollower {
  readonly #ports: SettingsPorts;
  readonly #cache = new RecordCache();
  readonly #read = Promise.withResolvers<void>();
  #isRead = false;
  /** Last readable contents of each record, by its key. */
  readonly #lastRead = new Map<string, AgentConfiguration>();
  /** By the key of the record. */
  #problems: ReadonlyMap<string, string> = new Map();
  #current: ReturnType<typeof agentSettings>;

  constructor(ports: SettingsPorts) {
    this.#ports = ports;
    this.#current = agentSettings(ports.env, ports.node, []);
  }

  get settings(): EffectiveSettings {
    return this.#current.settings;
  }

  /** Resolves when all settings of the node have been read for the first time, after `onChange`. */
  get read(): Promise<void> {
    return this.#read.promise;
  }

  /** Whether all settings of the node have been read once. */
  get isRead(): boolean {
    return this.#isRead;
  }

  /** Returns where each setting comes from. */
  explain(): readonly ExplainedSetting[] {
    return this.#current.explained;
  }

  /** Returns a sentence for each part of the node's settings that cannot be read. */
  problems(): readonly string[] {
    return [...this.#problems].map(([key, problem]) =>
      this.#lastRead.has(key) ? `${problem}; its last readable settings apply` : `${problem}; its settings are unknown`,
    );
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { store, log } = this.#ports;
    const work = async (): Promise<void> => {
      for await (const event of store.follow([{ kind: 'resources', of: 'AgentConfiguration' }], { signal })) {
        for (const { after } of this.#cache.apply(event))
          if (after.problem !== undefined) log.warning('record skipped', { problem: after.problem });
        this.#take();
        if ([...this.#problems.keys()].every((key) => this.#lastRead.has(key))) {
          this.#isRead = true;
          this.#read.resolve();
        }
      }
    };
    const onFailure = (cause: unknown, failures: number): void => {
      if (failures === 1) log.warning('settings watch lost, keeping settings', { reason: reasonOf(cause) });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }

  #take(): void {
    const { env, node, onChange } = this.#ports;
    const before = this.#current.settings;
    const names = ['default', ownConfigurationName(node)];
    const stored = [...this.#cache.records()].filter(
      (record) => record.kind === 'resource' && names.includes(record.which.name),
    );
    const keys = new Set(stored.map(({ key }) => key));
    for (const key of this.#lastRead.keys()) if (!keys.has(key)) this.#lastRead.delete(key);
    for (const { key, value, problem } of stored)
      if (problem === undefined && value !== undefined && 'kind' in value && value.kind === 'AgentConfiguration')
        this.#lastRead.set(key, value);
    this.#problems = new Map(stored.flatMap(({ key, problem }) => (problem === undefined ? [] : [[key, problem]])));
    this.#current = agentSettings(env, node, [...this.#lastRead.values()]);
    if (!isDeepStrictEqual(before, this.#current.settings)) onChange(this.#current.settings);
  }
}
