import { CONTROLLERS } from '../../model/automatic-host-endpoint.ts';
import { AGENT_SET } from '../cluster/names.ts';

/** What Prometheus scrapes: the job that its targets have, and the port on which /metrics is served to other hosts. */
export interface ScrapeTarget {
  /** Name of the object in the cluster, its label `app.kubernetes.io/name`, and the job. */
  readonly job: string;
  /** Container whose pod is scraped. */
  readonly container: string;
  readonly port: number;
}

/** The ports differ because both programs use the network of a node. */
export const AGENT_TARGET: ScrapeTarget = { job: AGENT_SET, container: 'agent', port: 9097 };
export const CONTROLLER_TARGET: ScrapeTarget = { job: CONTROLLERS, container: CONTROLLERS, port: 9096 };
