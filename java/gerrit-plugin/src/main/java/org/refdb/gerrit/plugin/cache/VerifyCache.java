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
import org.refdb.engine.Cache;
import org.refdb.gerrit.cache.CacheTools;

/** Reads every record of a persistent cache and checks it. */
final class VerifyCache {
  private VerifyCache() {}

  /** {@code refdb cache verify [CACHE]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "verify", description = "Reads every record of a persistent cache, or of all, and checks it")
  static final class Command extends CacheCommand.OneOrAll {
    @Override
    void execute() throws UnloggedFailure {
      long bad = 0;
      for (CacheTools cache : caches()) {
        Cache.Verified verified = cache.verify();
        bad += verified.bad();
        stdout.println(cache.name() + ": " + verified.good() + " entries are whole, " + verified.bad() + " harmed");
        stdout.flush();
      }
      if (bad > 0) {
        throw die(bad + " entries are harmed; they are misses and will be loaded anew");
      }
    }
  }

  /** {@code POST /config/server/caches/NAME/refdb~verify}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint implements RestModifyView<CacheResource, Input> {
    @Override
    public Response<Cache.Verified> apply(CacheResource cache, Input input) throws ResourceNotFoundException {
      return Response.ok(CacheResources.tools(cache).verify());
    }
  }
}
