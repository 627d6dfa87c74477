import { describeCluster } from '../support/datastore-cluster-suite.ts';

describeCluster('kv');
