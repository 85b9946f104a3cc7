package org.refdb.gerrit.plugin.cache;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.common.Input;
import com.google.gerrit.extensions.restapi.ResourceNotFoundException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.server.config.CacheResource;
import com.google.gerrit.sshd.CommandMetaData;
import org.refdb.gerrit.cache.CacheTools;

/** Frees dead space in the files of a persistent cache. */
final class CompactCache {
  private CompactCache() {}

  /** The number of bytes by which the files shrank. */
  record Result(long freedBytes) {}

  private static Result run(CacheTools cache) {
    return new Result(cache.compact());
  }

  /** {@code refdb cache compact [CACHE]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "compact", description = "Frees the dead space in a persistent cache's files, or in all")
  static final class Command extends CacheCommand.OneOrAll {
    @Override
    void execute() throws UnloggedFailure {
      for (CacheTools cache : caches()) {
        stdout.println(cache.name() + ": " + CompactCache.run(cache).freedBytes() + " bytes freed");
        stdout.flush();
      }
    }
  }

  /** {@code POST /config/server/caches/NAME/refdb~compact}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint implements RestModifyView<CacheResource, Input> {
    @Override
    public Response<Result> apply(CacheResource cache, Input input) throws ResourceNotFoundException {
      return Response.ok(CompactCache.run(CacheResources.tools(cache)));
    }
  }
}
