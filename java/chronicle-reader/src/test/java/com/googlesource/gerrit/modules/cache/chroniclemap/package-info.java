/**
 * Writes files as the module does: the classes have the names of those that read them, and stand before them on the class
 * path of the writing process. As the module's, they have a field for the cache's serializer, which the header names.
 */
package com.googlesource.gerrit.modules.cache.chroniclemap;
