import { isDeepStrictEqual } from 'node:util';
import { BackOff, type RetryPorts } from '../../../base/back-off.ts';
import { reasonOf } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import { RecordCache } from '../../../cache/record-cache.ts';
import { type EffectiveSettings, agentSettings, type ExplainedSetting } from '../../../config/agent-settings.ts';
import type { Env } from '../../../config/environment.ts';
import type { FollowStore } from '../../../datastore/follow.ts';
import type { AgentConfiguration } from '../../../model/agent-configuration.ts';
import type { NodeName } from '../../../model/names.ts';

const BACK_OFF = { firstMs: 100, maxMs: 5000, maxRefusedMs: 30_000 };

interface SettingsPorts extends RetryPorts {
  readonly store: FollowStore;
  readonly log: Log;
  readonly env: Env;
  readonly node: NodeName;
  /** Receives the settings when they have changed. */
  readonly onChange: (settings: EffectiveSettings) => void;
}

/** Follows the AgentConfigurations that apply to the node. While the datastore is unavailable the last settings apply. */
export class SettingsFollower {
  readonly #ports: SettingsPorts;
  readonly #cache = new RecordCache();
  readonly #read = Promise.withResolvers<void>();
  #current: ReturnType<typeof agentSettings>;

  constructor(ports: SettingsPorts) {
    this.#ports = ports;
    this.#current = agentSettings(ports.env, ports.node, []);
  }

  get settings(): EffectiveSettings {
    return this.#current.settings;
  }

  /** Resolves when the settings have been read for the first time, after `onChange`. */
  get read(): Promise<void> {
    return this.#read.promise;
  }

  /** Returns where each setting comes from. */
  explain(): readonly ExplainedSetting[] {
    return this.#current.explained;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { store, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!signal.aborted) {
      backOff.start();
      const from = this.#cache.version;
      const options = { ...(from === undefined ? {} : { from }), signal };
      try {
        for await (const event of store.follow([{ kind: 'resources', of: 'AgentConfiguration' }], options)) {
          for (const { after } of this.#cache.apply(event))
            if (after.problem !== undefined) log.warning('record skipped', { problem: after.problem });
          this.#take();
          this.#read.resolve();
        }
      } catch (cause) {
        if (signal.aborted) return;
        if (backOff.fail(cause) === 1)
          log.warning('settings watch lost, keeping settings', { reason: reasonOf(cause) });
      }
      await backOff.wait(signal);
    }
  }

  #take(): void {
    const { env, node, onChange } = this.#ports;
    const before = this.#current.settings;
    const stored = [...this.#cache.records()].flatMap(({ value }) =>
      value !== undefined && 'kind' in value && value.kind === 'AgentConfiguration' ? [value] : [],
    );
    this.#current = agentSettings(env, node, stored satisfies readonly AgentConfiguration[]);
    if (!isDeepStrictEqual(before, this.#current.settings)) onChange(this.#current.settings);
  }
}
