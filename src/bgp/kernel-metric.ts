/** Of every route that BIRD writes: routes of others to the same place go before. */
export const KERNEL_METRIC = 8192;
