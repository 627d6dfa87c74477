import type { ControllerRegistry } from './controller.ts';
import { endpointController } from './mirror-endpoints.ts';
import { addressController } from './node/address-controller.ts';
import { poolMarkController } from './node/mark-pools.ts';
import { nodeController } from './node/node-controller.ts';
import { poolController } from './node/pool-controller.ts';
import { versionController } from './node/version-controller.ts';
import { mirrorController } from './mirror-resources.ts';

/** The controllers behind each switch. */
export const REGISTRY: ControllerRegistry = {
  policy: () => [mirrorController('policy', 'NetworkPolicy', ['NetworkPolicy'])],
  profile: () => [mirrorController('profile', 'Profile', ['Namespace', 'ServiceAccount'])],
  workloadendpoint: () => [endpointController()],
  node: ({ node }) => [
    nodeController(node),
    addressController(node),
    versionController(node),
    poolController(),
    poolMarkController(node),
  ],
};
