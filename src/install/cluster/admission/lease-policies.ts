import { SYSTEM_NAMESPACE, TYPHA_LEASES } from '../names.ts';
import { TYPHA } from '../../../model/typha.ts';
import { type AdmissionPolicy, cel } from './admission-policy.ts';

const { label, value } = TYPHA_LEASES;
const SHOWN = `${label}=${value}`;
const has = (object: 'object' | 'oldObject'): string =>
  `${object} != null && dyn(${object}).metadata.?labels.orValue({})[?'${label}'].orValue('') == '${value}'`;

/** Policies about the Leases of the servers of the fan-out: an agent trusts the certificate in one, and enforces what its server says. */
export const LEASE_POLICIES: readonly AdmissionPolicy[] = [
  {
    name: 'netplug-typha-leases',
    about: `Leases of the servers of netplug-typha, with the label ${SHOWN}: agents connect to the address in them, and trust the
certificate. Only the account netplug-typha may write them, and it writes no other Lease. Everyone with the right may delete them.`,
    matches: {
      group: 'coordination.k8s.io',
      versions: ['*'],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
      resources: ['leases'],
      namespace: SYSTEM_NAMESPACE,
    },
    writers: 'everyone',
    variables: {
      isServer: `request.userInfo.username == 'system:serviceaccount:${SYSTEM_NAMESPACE}:${TYPHA}'`,
      now: has('object'),
      before: has('oldObject'),
    },
    validations: [
      {
        expression: cel`
          variables.isServer || request.operation == 'DELETE' || !(variables.now || variables.before)`,
        message: `only ${TYPHA} writes Leases with the label ${SHOWN}: agents trust the certificates in them`,
      },
      {
        expression: cel`
          !variables.isServer || ((object == null || variables.now) && (oldObject == null || variables.before))`,
        message: `${TYPHA} writes only Leases with the label ${SHOWN}`,
      },
    ],
  },
];
