/** From the files of cache-chroniclemap: {@code ChronicleCaches}. Keys and values go over as bytes. */
package org.refdb.gerrit.cache.chronicle;
