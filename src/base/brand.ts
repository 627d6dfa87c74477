declare const brand: unique symbol;

/** A `T` that only a decoder makes, so that look-alikes cannot be swapped. */
export type Brand<T, B extends string> = T & { readonly [brand]: B };
