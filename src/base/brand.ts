declare const brand: unique symbol;

/** A `T` that only a decoder makes, so that two kinds of strings cannot be confused. */
export type Brand<T, B extends string> = T & { readonly [brand]: B };
