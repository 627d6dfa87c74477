/**
 * Taint of the orchestrator by which an administrator vouches that the machine of a node is off, or has been restarted: nothing
 * that ran there runs any more.
 */
export const OUT_OF_SERVICE_TAINT = 'node.kubernetes.io/out-of-service';
