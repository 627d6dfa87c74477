import type { InstallationPool } from '../../model/installation.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import type { ChainedPlugin } from '../render-conflist.ts';
import type { ClusterDatastore, Variant } from './settings.ts';
import { valueAt } from './spec-path.ts';

/** One field of an Installation. */
export interface Field<T> extends ShownField<T> {
  /** The value of a field that is not written. Without one, the agent decides. */
  readonly byDefault?: T;
  /** Returns the value that takes effect, where a default alone does not tell it. */
  complete?(this: void, written: T | undefined, circumstances: FieldCircumstances): T;
  /** The variants in which the field has no effect, with the value that describes what they do. */
  readonly idle?: Readonly<Partial<Record<Variant, T | undefined>>>;
}

/** Facts on which the value of a field depends besides what is written in it. */
export interface FieldCircumstances {
  /** Whether pods get addresses from pools of netplug. */
  readonly hasPools: boolean;
  readonly listed: readonly InstallationPool[];
  readonly pools: readonly IpPool[];
  readonly nodes: number;
  readonly servesAdmission: boolean;
  readonly datastore: ClusterDatastore['type'];
  /** Number of servers of the fan-out, in place of the one that is written. */
  readonly typhaReplicas: number | undefined;
}

/** Places where the objects of an installation show a field. A field without any of these is not shown. */
export interface ShownField<T> {
  /** The key of the plugin's configuration that has it, in which undefined is left out. */
  readonly key?: string;
  encode?(this: void, value: T): unknown;
  /** The plugin that is chained to netplug when it is on. */
  readonly chained?: ChainedPlugin;
  /** The variable of the agent that has it. */
  readonly variable?: string;
  /** The workload whose edits it holds. */
  readonly override?: { readonly kind: 'DaemonSet' | 'Deployment'; readonly name: string };
  /** Returns the value that objects show. */
  read?(this: void, objects: ShownObjects): T | undefined;
}

/** Parts of the objects that show fields. */
export interface ShownObjects {
  /** The configuration of the plugin; undefined without a conflist, whose fields then have their defaults. */
  readonly plugin: Readonly<Record<string, unknown>> | undefined;
  /** The entries behind the plugin's own. */
  readonly chained: readonly Readonly<Record<string, unknown>>[];
  /** Returns the value of a variable of the agent. */
  variable(this: void, name: string): string | undefined;
  readonly registry: string | undefined;
  readonly pullSecrets: readonly string[];
  /** The replicas of the controllers. */
  readonly replicas: unknown;
  readonly hasBird: boolean;
  /** The replicas of the fan-out that agents use; undefined where they use none. */
  readonly typhaReplicas: unknown;
  /** Whether the ConfigMap says that the admission policies are left out. */
  readonly withoutAdmission: boolean;
}

type Switch = 'Enabled' | 'Disabled';

/** Shows a field in a key of the plugin's configuration, in the words of `decode` and `encode`. */
export function inKey<T>(
  key: string,
  decode: (found: unknown) => T | undefined,
  encode: (value: T) => unknown = (value) => value,
): ShownField<T> {
  return { key, encode, read: ({ plugin }) => plugin && decode(valueAt(plugin, key)) };
}

/** Shows a switch in a key that has this value when it is on, and is left out when it is off. */
export function on(key: string, value: unknown): ShownField<Switch> {
  return inKey(
    key,
    (found) => (found === value ? 'Enabled' : 'Disabled'),
    (written) => (written === 'Enabled' ? value : undefined),
  );
}

export function inChained(chained: ChainedPlugin): ShownField<Switch> {
  const read = (objects: ShownObjects): Switch | undefined =>
    objects.plugin && (objects.chained.some(({ type }) => type === chained) ? 'Enabled' : 'Disabled');
  return { chained, read };
}

/** Shows a text in a variable, which is left out where the program has the same default. */
export function inVariable(variable: string, byDefault?: string): ShownField<string> {
  const encode = (value: string): string | undefined => (value === byDefault ? undefined : value);
  return { variable, encode, read: (objects) => objects.variable(variable) };
}
