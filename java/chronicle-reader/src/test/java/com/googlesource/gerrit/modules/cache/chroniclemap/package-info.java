/**
 * Writes files as the module cache-chroniclemap does. The classes have the names of those that read them. On the class
 * path of the writing process they come first. As the module's, they have a field for the cache's serializer, which the
 * header names.
 */
package com.googlesource.gerrit.modules.cache.chroniclemap;
