import type { ServicePort } from '../model/service-endpoints.ts';
import type { PolicyView } from './policy-view.ts';

type WithServices = Pick<PolicyView, 'services'>;

/** Returns the servers of the orchestrator's API behind its service, as far as records of services show them. */
export function apiServers(view: WithServices): readonly ServicePort[] {
  return view.services.portsOf('default', 'kubernetes');
}

/** Returns the servers of the datastore: the configured ones, and those to which a configured service address is translated. */
export function datastoreServers(view: WithServices, configured: readonly ServicePort[]): readonly ServicePort[] {
  return [...configured, ...apiServers(view)];
}
