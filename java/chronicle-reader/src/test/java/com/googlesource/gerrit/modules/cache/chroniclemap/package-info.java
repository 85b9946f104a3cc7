/**
 * Writes files as the module cache-chroniclemap does. The marshallers have the names of those with which refdb reads
 * the files, and come before them on the class path of the writing process. Like the marshallers of the module, they
 * have a field for the cache's serializer, which the header of a file names.
 */
package com.googlesource.gerrit.modules.cache.chroniclemap;
