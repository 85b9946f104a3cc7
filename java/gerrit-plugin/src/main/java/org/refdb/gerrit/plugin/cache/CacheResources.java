package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.server.config.CacheResource;
import org.refdb.gerrit.cache.CacheAdmin;
import org.refdb.gerrit.cache.CacheTools;

/** Finds the persistent cache that a REST resource stands for. */
final class CacheResources {
  private CacheResources() {}

  static CacheTools tools(CacheResource cache) throws ResourceNotFoundException {
    return CacheAdmin.of(cache.getCache())
        .orElseThrow(() -> new ResourceNotFoundException(cache.getName() + " is not a cache that refdb serves"));
  }
}
