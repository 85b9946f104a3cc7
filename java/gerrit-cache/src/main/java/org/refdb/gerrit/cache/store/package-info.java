/**
 * The bytes of the caches on disk: what a store promises ({@code Store}), the engine's ({@code NativeOpener}), the folders
 * and the keys that they are encrypted with. Nothing here knows an object of Gerrit's.
 */
package org.refdb.gerrit.cache.store;
