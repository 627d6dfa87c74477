import type { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';

/** One line of a role. */
export interface RoleRule {
  /** The empty text is the core group. */
  readonly group: string;
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** The objects it is limited to; all of them unless given. */
  readonly names?: readonly string[];
  /** Use of the right: one sentence without a full stop. */
  readonly why: string;
}

export interface Role {
  /** Purpose of the role: one or more sentences. */
  readonly about: string;
  /** The service account bound to the role; a cluster binds its users itself. */
  readonly account?: 'netplug-cni' | 'netplug-agent' | 'netplug-typha' | 'netplug-operator' | typeof CONTROLLERS;
  /** The namespace that the role is limited to; the whole cluster unless given. */
  readonly namespace?: string;
  /** The datastore that needs the role; both unless given. */
  readonly datastore?: 'orch' | 'kvv3';
  /** Whether the role is only for an installation with the servers of the fan-out, or only for one without; both unless given. */
  readonly fanOut?: 'with' | 'without';
  readonly rules: readonly RoleRule[];
}

type Right = (resources: readonly string[], verbs: readonly string[], why: string) => RoleRule;

export const core = rightIn('');
export const own = rightIn('netplug.io');
export const apps = rightIn('apps');
export const rbac = rightIn('rbac.authorization.k8s.io');
export const networking = rightIn('networking.k8s.io');
export const discovery = rightIn('discovery.k8s.io');
export const coordination = rightIn('coordination.k8s.io');
export const authentication = rightIn('authentication.k8s.io');
export const disruption = rightIn('policy');
export const flowControl = rightIn('flowcontrol.apiserver.k8s.io');
export const extensions = rightIn('apiextensions.k8s.io');
export const admission = rightIn('admissionregistration.k8s.io');

export const READ = ['get', 'list', 'watch'];
export const FOLLOW = ['list', 'watch'];

/** Limits a right to the objects of these names. */
export function only(names: readonly string[], rule: RoleRule): RoleRule {
  return { ...rule, names };
}

/** Returns what makes the lines about an API group. */
function rightIn(group: string): Right {
  return (resources, verbs, why) => ({ group, resources, verbs, why });
}
