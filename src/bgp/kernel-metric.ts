/** The metric of every route that BIRD writes. Routes of other software to the same destination win. */
export const KERNEL_METRIC = 8192;
