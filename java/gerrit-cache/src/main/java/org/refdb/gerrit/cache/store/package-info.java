/**
 * The bytes of the caches on disk: a store's promises ({@code Store}) and the engine's ({@code NativeOpener}). Here are
 * also the folders, and the keys that they are encrypted with. Nothing here knows an object of Gerrit's.
 */
package org.refdb.gerrit.cache.store;
