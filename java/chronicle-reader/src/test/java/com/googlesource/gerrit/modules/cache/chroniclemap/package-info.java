/**
 * Writes files as the module cache-chroniclemap does. The classes have the names of the classes with which refdb reads
 * the files, and come before those on the class path of the writing process. Like the classes of the module, they have
 * a field for the cache's serializer, which the header of a file names.
 */
package com.googlesource.gerrit.modules.cache.chroniclemap;
