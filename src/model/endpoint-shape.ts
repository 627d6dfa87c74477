import * as v from 'valibot';
import { foreignRecord } from '../base/foreign-record.ts';
import { API_VERSION } from './resource.ts';

export const metadataShape = v.looseObject({
  name: v.string(),
  namespace: v.exactOptional(v.string()),
  labels: v.exactOptional(foreignRecord(v.string(), v.string())),
  annotations: v.exactOptional(foreignRecord(v.string(), v.string())),
  uid: v.exactOptional(v.string()),
  creationTimestamp: v.exactOptional(v.string()),
});

/** A WorkloadEndpoint as stored; fields of newer releases are kept. */
export const endpointShape = v.looseObject({
  apiVersion: v.literal(API_VERSION),
  kind: v.literal('WorkloadEndpoint'),
  metadata: metadataShape,
  spec: v.looseObject({
    orchestrator: v.picklist(['orch', 'cni']),
    node: v.string(),
    network: v.string(),
    containerID: v.string(),
    pod: v.exactOptional(v.string()),
    podUID: v.exactOptional(v.string()),
    endpoint: v.string(),
    interfaceName: v.string(),
    mac: v.string(),
    ipNetworks: v.array(v.string()),
    ipv4Gateway: v.exactOptional(v.string()),
    ipv6Gateway: v.exactOptional(v.string()),
    profiles: v.array(v.string()),
    serviceAccountName: v.exactOptional(v.string()),
    ports: v.exactOptional(v.array(v.looseObject({ protocol: v.string(), port: v.number() }))),
    ipNATs: v.exactOptional(v.array(v.looseObject({ internalIP: v.string(), externalIP: v.string() }))),
    ipam: v.string(),
  }),
});
