/** Imports the files of cache-chroniclemap: {@code ChronicleCaches}. Keys and values are copied as bytes. */
package org.refdb.gerrit.cache.chronicle;
