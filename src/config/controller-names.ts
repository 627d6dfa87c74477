import { ownValue } from '../base/own-value.ts';
/** The controllers of netplug-orch-controllers that can be switched on and off. */
export const CONTROLLER_NAMES = ['policy', 'profile', 'workloadendpoint', 'node'] as const;
export type ControllerName = (typeof CONTROLLER_NAMES)[number];

/** Namespaces and service accounts become profiles: one controller makes both. */
const OTHER_NAMES: Readonly<Record<string, ControllerName>> = { namespace: 'profile', serviceaccount: 'profile' };

export function controllerCalled(name: string): ControllerName | undefined {
  return CONTROLLER_NAMES.find((known) => known === name) ?? ownValue(OTHER_NAMES, name);
}
